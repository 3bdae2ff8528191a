/**
 * Gives a model that cannot do a task yet a start that reinforcement learning needs: a LoRA adapter imitates short worked
 * solutions of SVAMP's problems, made from their equations, and is folded into the weights. A training set of the
 * experiment must not overlap: it takes the first `--problems` of the file, the experiment the rest, which are written
 * beside the checkpoint as `problems.jsonl`; with `--largest`, only the easy ones of them, of one operation on numbers up
 * to that.
 *
 *     npx tsx bench/warm-start.ts --model SmolLM2-135M-Instruct --svamp SVAMP.json --out warm --device auto --largest 30
 */
import { copyFile, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { notePrompt } from '../src/board/prompts.ts'
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
import { random } from '../src/random.ts'
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
  },
})
const { model, svamp, out } = flags
if (!model || !svamp || !out) throw new Error('give --model, --svamp and --out')
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
const question = ({ Body, Question }: (typeof problems)[number]) => `${Body.trim()} ${Question.trim()}`
/** `( 8.0 - 3.0 )` and 5 as "8 - 3 = 5, so the answer is \boxed{5}." */
const solution = ({ Equation, Answer }: (typeof problems)[number]) => {
  const equation = plain(Equation).replace(/^\(\s*|\s*\)$/g, '')
  const answer = plain(String(Answer).includes('.') ? String(Answer) : `${Answer}.0`)
  return `${equation} = ${answer}, so the answer is \\boxed{${answer}}.`
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
  const chosen = Array.from({ length: batch }, () => problems[stream.int(count)])
  const data = chosen.map((problem): SupervisedDatum => {
    const completion = [...tokenizer.encode(solution(problem)), tokenizer.stop[0]]
    const prompt = tokenizer.chat(notePrompt(question(problem)))
    return { prompt, completion, weights: completion.map(() => 1) }
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
const easy = ({ Equation }: (typeof problems)[number]) =>
  Equation.match(/[-+*/]/g)?.length === 1 &&
  (Equation.match(/\d+(\.\d*)?/g) ?? []).every((number) => Number(number) <= largest)
const rest = problems
  .slice(count)
  .filter((problem) => flags.largest === undefined || easy(problem))
  .map((problem) => JSON.stringify({ question: question(problem), gold: plain(`${problem.Answer}`) }))
await writeFileAtomic(join(out, 'problems.jsonl'), `${rest.join('\n')}\n`)
