/**
 * Gives a model that cannot do a task yet a start that reinforcement learning needs: a LoRA adapter imitates short worked
 * solutions of SVAMP's problems, made from their equations, and is folded into the weights. A training set of the
 * experiment must not overlap: it takes the first `--problems` of the file, the experiment the rest, which are written
 * beside the checkpoint as `problems.jsonl`; with `--largest`, only the easy ones of them, of one operation on numbers up
 * to that.
 *
 *     npx tsx bench/warm-start.ts --model SmolLM2-135M-Instruct --svamp SVAMP.json --out warm --device auto --largest 30
 *
 * `--split sentences` gives a start for problems whose sentences are dealt to the seats of a board, so that nobody knows
 * all numbers: it imitates, each a third of the time, the solution of a whole problem; the note of a writer that knows
 * some sentences, which repeats them in 40% and only guesses in the rest; and the solution by a reader of such notes. The
 * problems that are left are then such, with `parts`.
 *
 *     npx tsx bench/warm-start.ts --model SmolLM2-135M-Instruct --svamp SVAMP.json --out warm --device cuda \
 *       --split sentences --problems 250 --steps 300 --largest 60
 */
import { copyFile, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { notePrompt, readPrompt } from '../src/board/prompts.ts'
import { loadAdapter } from '../src/engine/checkpoint/adapter.ts'
import { openCheckpoint, projections, saveCheckpoint } from '../src/engine/checkpoint/folder.ts'
import type { SupervisedDatum } from '../src/engine/contract.ts'
import { openBase } from '../src/engine/onnx/base.ts'
import { chooseDevice, deviceMemory } from '../src/engine/onnx/device.ts'
import type { Device } from '../src/engine/onnx/devices.ts'
import { defaultLimits, gpuLimits } from '../src/engine/onnx/limits.ts'
import { loraPolicy } from '../src/engine/onnx/policy.ts'
import { foldProgram, loraA, loraB } from '../src/engine/onnx/programs.ts'
import { compile, floatData, floats } from '../src/engine/onnx/session.ts'
import { writeFileAtomic } from '../src/files.ts'
import { type Random, random } from '../src/random.ts'
import { svampQuestion } from '../src/tasks/named.ts'
import { carriesPart, partsOf, splitSentences } from '../src/tasks/parts.ts'
import type { Problem } from '../src/tasks/types.ts'
import type { ChatMessage } from '../src/tokens/chat.ts'
import { loadTokenizer } from '../src/tokens/tokenizer.ts'

const { values: flags } = parseArgs({
  options: {
    model: { type: 'string' },
    svamp: { type: 'string' },
    out: { type: 'string' },
    device: { type: 'string', default: 'cpu' },
    problems: { type: 'string', default: '400' },
    steps: { type: 'string', default: '100' },
    batch: { type: 'string', default: '16' },
    rate: { type: 'string', default: '3e-4' },
    largest: { type: 'string' },
    split: { type: 'string' },
  },
})
const { model, svamp, out } = flags
if (!model || !svamp || !out) throw new Error('give --model, --svamp and --out')
if (flags.split !== undefined && flags.split !== 'sentences') throw new Error("--split is 'sentences'")
const [count, steps, batch, rate] = [flags.problems, flags.steps, flags.batch, flags.rate].map(Number)
const lora = { rank: 32, alpha: 64, seed: 1 }

const problemsSchema = z.array(
  z.object({
    Body: z.string(),
    Question: z.string(),
    Equation: z.string(),
    Answer: z.union([z.string(), z.number()]),
  }),
)
const problems = problemsSchema.parse(JSON.parse(await readFile(svamp, 'utf8')))
const plain = (text: string) => text.replace(/(\d)\.0\b/g, '$1')
type Row = (typeof problems)[number]
// Without dealt sentences as docs/gpu.md's run had it, where a story may end without a stop.
const question = (row: Row) =>
  flags.split ? svampQuestion(row) : `${row.Body.trim()} ${row.Question.trim()}`
const gold = ({ Answer }: Row) => plain(String(Answer).includes('.') ? String(Answer) : `${Answer}.0`)
/** `( 8.0 - 3.0 )` and 5 as "8 - 3 = 5, so the answer is \boxed{5}." */
const solution = (row: Row) => {
  const equation = plain(row.Equation).replace(/^\(\s*|\s*\)$/g, '')
  return `${equation} = ${gold(row)}, ${guess(gold(row))}`
}
const guess = (answer: string) => `so the answer is \\boxed{${answer}}.`

const SEATS = 4

/** A problem whose sentences are dealt, so that all seats together know its equation's numbers and none alone; or null. */
function deal(row: Row): Problem | null {
  const dealt = splitSentences({ id: row.Body, question: question(row), gold: gold(row) })
  if (dealt === null) return null
  const knows = (parts: readonly string[]) =>
    carriesPart([...parts, dealt.question].join(' '), plain(row.Equation)) === true
  const alone = Array.from({ length: SEATS }, (_, seat) => partsOf(dealt, seat, SEATS)).some(knows)
  return knows(dealt.parts ?? []) && !alone ? dealt : null
}

/** What a writer posts that knows `parts`: them, half of the time with a guess, or a guess alone. */
function dealtNote(parts: readonly string[], answer: string, tells: boolean, rng: Random): string {
  if (!tells) return guess(answer)
  return [...parts, ...(rng.next() < 0.5 ? [guess(answer)] : [])].join(' ')
}

interface Imitated {
  chat: ChatMessage[]
  text: string
}

const pool = problems.slice(0, count)
const dealtPool = pool.flatMap((row) => {
  const dealt = deal(row)
  return dealt === null ? [] : [{ row, dealt }]
})

/** A chat of the start, and what is imitated. */
function imitated(rng: Random): Imitated {
  const kind = flags.split ? rng.pick(['whole', 'writer', 'reader'] as const) : 'whole'
  if (kind === 'whole') {
    const row = pool[rng.int(pool.length)]
    return { chat: notePrompt(question(row)), text: solution(row) }
  }
  const { row, dealt } = rng.pick(dealtPool)
  if (kind === 'writer') {
    const parts = partsOf(dealt, rng.int(SEATS), SEATS)
    // What it cannot know it learns to guess.
    return {
      chat: notePrompt(dealt.question, parts),
      text: dealtNote(parts, dealt.gold, rng.next() < 0.4, rng),
    }
  }
  // Each board has its own share of notes that tell their part, so that well-informed boards are known too.
  const telling = 0.2 + 0.8 * rng.next()
  const notes = Array.from({ length: SEATS }, (_, seat) =>
    dealtNote(partsOf(dealt, seat, SEATS), gold(rng.pick(pool)), rng.next() < telling, rng),
  )
  return { chat: readPrompt(dealt.question, notes), text: solution(row) }
}

const checkpoint = await openCheckpoint(model)
const { config } = checkpoint
const tokenizer = await loadTokenizer(model)
const place = await chooseDevice(flags.device as Device | 'auto')
const limits =
  place.device === 'cpu' ? defaultLimits(config) : gpuLimits(config, await deviceMemory(place.device), place)
const base = openBase(config, await checkpoint.loadWeights(), limits, { givesUp: true, place })
const policy = loraPolicy(base, model, lora)

const stream = random('warm start')
for (let step = 1; step <= steps; step++) {
  const data = Array.from({ length: batch }, (): SupervisedDatum => {
    const { chat, text } = imitated(stream)
    const completion = [...tokenizer.encode(text), tokenizer.stop[0]]
    return { prompt: tokenizer.chat(chat), completion, weights: completion.map(() => 1) }
  })
  const tokens = data.reduce((sum, { completion }) => sum + completion.length, 0)
  const weighted = data.map((datum) => ({
    ...datum,
    weights: datum.weights.map((weight) => weight / tokens),
  }))
  const { loss } = await policy.forwardBackwardSupervised(weighted)
  const adam = { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1 }
  await policy.optimStep({ ...adam, learningRate: rate * Math.min(1, (1.1 * (steps - step)) / steps + 0.01) })
  if (step % 10 === 0) process.stderr.write(`step ${step}/${steps}: ${loss.toFixed(3)} nats a token\n`)
}
await policy.save(join(out, 'adapter'))
await base.close()

const adapter = await loadAdapter(join(out, 'adapter'), config)
const weights = await checkpoint.loadWeights()
const fold = await compile(foldProgram(config, { rank: lora.rank, scale: lora.alpha / lora.rank }))
const tensors = [...weights].map(([name, { shape, data }]) => [name, floats(data, shape)])
const pairs = [...adapter.projections].flatMap(([name, { a, b }]) => [
  [loraA(name), floats(a.data, a.shape)],
  [loraB(name), floats(b.data, b.shape)],
])
const folded = await fold.run([Object.fromEntries(tensors), Object.fromEntries(pairs)])
for (const { name, out: rows, in: columns } of projections(config)) {
  weights.set(`${name}.weight`, { shape: [rows, columns], data: floatData(folded[`folded ${name}.weight`]) })
}
await saveCheckpoint(out, config, weights, 'F16')
for (const file of await readdir(model)) {
  if (/^(tokenizer|special_tokens|vocab|merges|chat_template|generation_config)/.test(file)) {
    await copyFile(join(model, file), join(out, file))
  }
}
const largest = Number(flags.largest ?? Number.POSITIVE_INFINITY)
const easy = ({ Equation }: Row) =>
  Equation.match(/[-+*/]/g)?.length === 1 &&
  (Equation.match(/\d+(\.\d*)?/g) ?? []).every((number) => Number(number) <= largest)
const rest = problems
  .slice(count)
  .filter((row) => flags.largest === undefined || easy(row))
  .flatMap((row) => {
    if (!flags.split) return { question: question(row), gold: plain(`${row.Answer}`) }
    const dealt = deal(row)
    return dealt === null ? [] : { question: dealt.question, parts: dealt.parts, gold: dealt.gold }
  })
  .map((problem) => JSON.stringify(problem))
await writeFileAtomic(join(out, 'problems.jsonl'), `${rest.join('\n')}\n`)
