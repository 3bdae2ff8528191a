/**
 * Sampling beside llama.cpp on SmolLM2-135M-Instruct: the same prompts, the same number of tokens, in turn.
 *
 *     npx tsx test/live/peers/sampling.ts [--prompts 8] [--new 48] [--turns 3] [--rounds 1] [--out bench/results]
 *
 * Ours goes to cpu-smollm2.json of that folder and llama.cpp's to cpu-smollm2-llama-cpp.json. llama_cpp_sampling.py says
 * what llama.cpp is given, README.md which Python runs it.
 */
import { spawnSync } from 'node:child_process'
import { availableParallelism, cpus, loadavg } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { runtimeVersion } from '../../../src/engine/onnx/runtime.ts'
import { writeJsonAtomic } from '../../../src/files.ts'
import { loadTokenizer } from '../../../src/tokens/tokenizer.ts'
import { ask, home, questions, smolLm2 } from './peers.ts'
import { measureOurs, median, type SamplingRequest } from './speed.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const { values: flags } = parseArgs({
  options: {
    prompts: { type: 'string', default: '8' },
    new: { type: 'string', default: '48' },
    /** How often each side is measured: in turn, so that what else the machine does meets both. */
    turns: { type: 'string', default: '3' },
    /** Timed rounds of each turn, after one that warms up. */
    rounds: { type: 'string', default: '1' },
    out: { type: 'string', default: join(root, 'bench/results') },
  },
})
const turns = Number(flags.turns)
const shape = {
  prompts: Number(flags.prompts),
  copies: 4,
  newTokens: Number(flags.new),
  temperature: 0.9,
}
/** Notes after a question; replies after a board of four notes. */
const works = [
  { name: 'notes', ...shape, promptTokens: 128, topP: 0.95 },
  { name: 'replies', ...shape, promptTokens: 384, topP: 1 },
]
/** The first is the arithmetic of this project; the quantised are smaller models, if of the same name. */
const weights = ['F32', 'BF16', 'Q8_0', 'Q4_0']

interface Round {
  seconds: number
  /** Of these, until all prompts were computed. */
  prompts?: number
  /** Of these, to draw tokens from logits. */
  drawing?: number
}
interface Measured {
  work: string
  weights: string
  rounds: Round[]
}
interface Answer {
  versions: Record<string, string>
  /** The instructions that its library was built for. */
  system: string
  measured: Measured[]
}

const folder = await smolLm2()
const tokenizer = await loadTokenizer(folder)
const texts = await questions()
const threads = availableParallelism()
const requests = works.map(
  ({ name, prompts, promptTokens, copies, newTokens, topP }): [string, SamplingRequest] => [
    name,
    {
      folder,
      threads,
      rounds: Number(flags.rounds),
      prompts: Array.from({ length: prompts }, (_, i) =>
        tokenizer.encode(texts.slice(8 * i, 8 * i + 8).join('\n')).slice(0, promptTokens),
      ),
      copies,
      newTokens,
      topP,
    },
  ],
)
const loadAverage = [loadavg()[0]]
const ours: Measured[] = []
const answers: Answer[] = []
for (let turn = 0; turn < turns; turn++) {
  for (const [work, request] of requests) {
    const { generation } = await measureOurs(request)
    ours.push({ work, weights: 'F32', rounds: generation.map((seconds) => ({ seconds })) })
  }
  const { answer } = await ask<Answer>('llama_cpp_sampling.py', null, {
    gguf: join(home, 'gguf'),
    threads,
    rounds: Number(flags.rounds),
    weights,
    works: Object.fromEntries(requests.map(([name, request]) => [name, { ...request, temperature: 0.9 }])),
  })
  answers.push(answer)
  loadAverage.push(loadavg()[0])
}
const about = {
  model: 'SmolLM2-135M-Instruct',
  machine: { processor: cpus()[0]?.model ?? 'unknown', threads },
  date: new Date().toISOString().slice(0, 10),
  /** Of one minute: before, and after each turn. */
  loadAverage,
  works,
}
const of = spawnSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8', cwd: root }).stdout.trim()
await writeJsonAtomic(join(flags.out, 'cpu-smollm2.json'), {
  ...about,
  of,
  versions: { node: process.version, 'onnxruntime-node': runtimeVersion('native') },
  measured: joined(ours),
})
const { versions, system } = answers[0]
const theirs = joined(answers.flatMap(({ measured }) => measured))
await writeJsonAtomic(join(flags.out, 'cpu-smollm2-llama-cpp.json'), {
  ...about,
  versions,
  system,
  measured: theirs,
})
for (const work of works) {
  const rate = ({ rounds }: Measured) =>
    (work.prompts * work.copies * work.newTokens) / median(rounds.map(({ seconds }) => seconds))
  const line = (who: string, found: Measured) =>
    process.stdout.write(
      `${work.name.padEnd(8)} ${who.padEnd(16)} ${found.weights.padEnd(5)} ${rate(found).toFixed(0).padStart(5)} tok/s\n`,
    )
  const mine = joined(ours).find((one) => one.work === work.name)
  if (mine) line('this project', mine)
  for (const one of theirs) {
    if (one.work === work.name) line('llama.cpp', one)
  }
}

/** One entry for each work and weights, with the rounds of all turns. */
function joined(found: Measured[]): Measured[] {
  const joined = new Map<string, Measured>()
  for (const one of found) {
    const key = `${one.work} ${one.weights}`
    const before = joined.get(key)
    joined.set(key, before ? { ...before, rounds: [...before.rounds, ...one.rounds] } : one)
  }
  return [...joined.values()]
}
