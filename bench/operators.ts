/**
 * Where the time inside the graphs goes, by ONNX Runtime's own profiler: the share of each operator in one batch of
 * training and in one step of sampling, at the default experiment's shapes, on one thread. Run it with
 * `npx tsx bench/operators.ts`; the figures go to bench/results/operators.json.
 */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import * as ort from 'onnxruntime-node'
import { z } from 'zod'
import type { ModelConfig } from '../src/engine/checkpoint/config.ts'
import { openCheckpoint, projections } from '../src/engine/checkpoint/folder.ts'
import { BLOCKS } from '../src/engine/onnx/lane.ts'
import { rotaryTables } from '../src/engine/onnx/model.ts'
import { packRows, planBatches } from '../src/engine/onnx/pack.ts'
import {
  cacheKey,
  cacheValue,
  loraA,
  loraB,
  promptKey,
  promptValue,
  sequenceProgram,
  stepProgram,
} from '../src/engine/onnx/programs.ts'
import { sequenceInputs } from '../src/engine/onnx/sequences.ts'
import { floats, int32s, int64s, scalar, type Value } from '../src/engine/onnx/session.ts'
import { smallPolicySettings } from '../src/experiment/defaults.ts'
import { writeJsonAtomic } from '../src/files.ts'
import { builtInModel } from '../src/platform/machine.ts'

const REPEATS = 20
const { board, train } = smallPolicySettings
const { rank, alpha } = train.lora
const adapter = { rank, scale: alpha / rank }
const checkpoint = await openCheckpoint(builtInModel)
const { config } = checkpoint

/** Everything that every graph reads. */
const shared: Record<string, Value> = {}
for (const [name, { shape, data }] of await checkpoint.loadWeights()) shared[name] = floats(data, shape)
for (const { name, in: inputs, out } of projections(config)) {
  shared[loraA(name)] = floats(new Float32Array(rank * inputs).fill(0.01), [rank, inputs])
  shared[loraB(name)] = floats(new Float32Array(rank * out).fill(0.01), [out, rank])
}
const half = config.headDim / 2
const { cos, sin } = rotaryTables(config, 2048)
shared.cos = floats(cos, [2048, half])
shared.sin = floats(sin, [2048, half])

const eventSchema = z.array(
  z.object({
    cat: z.string().optional(),
    name: z.string(),
    dur: z.number().optional(),
    args: z.looseObject({ op_name: z.string().optional() }).optional(),
  }),
)

/** Milliseconds a run in each operator, the largest first. */
async function profile(bytes: Uint8Array, feeds: Record<string, Value>): Promise<[string, number][]> {
  const folder = await mkdtemp(join(tmpdir(), 'operators-'))
  const session = await ort.InferenceSession.create(bytes, {
    intraOpNumThreads: 1,
    enableProfiling: true,
    profileFilePrefix: join(folder, 'profile'),
    logSeverityLevel: 3,
  })
  const inputs = Object.fromEntries(session.inputNames.map((name) => [name, feeds[name] ?? shared[name]]))
  for (let i = 0; i < REPEATS; i++) await session.run(inputs)
  session.endProfiling()
  await session.release()
  const [file] = await readdir(folder)
  const events = eventSchema.parse(JSON.parse(await readFile(join(folder, file), 'utf8')))
  await rm(folder, { recursive: true })
  const sums = new Map<string, number>()
  for (const { cat, name, dur = 0, args } of events) {
    if (cat !== 'Node' || !name.endsWith('_kernel_time') || args?.op_name === undefined) continue
    sums.set(args.op_name, (sums.get(args.op_name) ?? 0) + dur / 1000 / REPEATS)
  }
  return [...sums].sort(([, a], [, b]) => b - a)
}

/** Two boards' replies in one batch, as lanes get them: the shared prompt once, four replies behind it. */
function trainingFeeds({ vocabSize }: ModelConfig): Record<string, Value> {
  const token = (i: number) => (i * 7919) % vocabSize
  const sequences = Array.from({ length: 8 }, (_, s) => ({
    prompt: Array.from({ length: 220 }, (_, i) => token(i + 1000 * (s >> 2))),
    completion: Array.from({ length: 40 }, (_, i) => token(i + 7 * s)),
  }))
  const [rows] = planBatches(sequences, { tokenBudget: 1e9, rowLimit: 1e9, lanes: 1 })
  const packed = packRows(
    rows,
    sequences.map(({ completion }) => completion),
  )
  const count = packed.rows.length
  const every = (value: number) => floats(new Float32Array(count).fill(value), [count])
  return {
    ...sequenceInputs(packed),
    advantages: every(0.01),
    old: every(-1),
    low: scalar(0.8),
    high: scalar(1.28),
    temperature: scalar(0.9),
  }
}

/** One token for each of the samples that a job decodes together in training: four on each of twelve boards. */
function stepFeeds({ layers, heads, kvHeads, headDim }: ModelConfig): Record<string, Value> {
  const { problemsPerStep: prompts } = train
  const [prefix, window] = [220, 32]
  const batch = prompts * board.copies
  const count = (n: number) => Array.from({ length: n }, (_, i) => i)
  const asked = (board.copies * heads) / kvHeads
  const columns = prefix + window + 1
  const feeds: Record<string, Value> = {
    tokens: int32s(count(batch), [batch, 1]),
    positions: int64s(new Int32Array(batch).fill(prefix), [batch, 1]),
    rows: int32s(count(batch), [batch]),
    asks: int32s(count(prompts * kvHeads * asked), [prompts, kvHeads, asked]),
    places: int32s(count(batch * heads), [batch, kvHeads, heads / kvHeads]),
    prefix: int64s([prefix], [1]),
    mask: floats(new Float32Array(prompts * asked * columns), [prompts, 1, asked, columns]),
    temperature: scalar(0.9),
  }
  const cache = (rows: number, length: number) =>
    floats(new Float32Array(rows * kvHeads * length * headDim), [rows, kvHeads, length, headDim])
  for (let layer = 0; layer < layers; layer++) {
    for (const name of [promptKey(layer), promptValue(layer)]) feeds[name] = cache(prompts, prefix)
    for (const name of [cacheKey(layer), cacheValue(layer)]) feeds[name] = cache(batch, window)
  }
  return feeds
}

const graphs = {
  'forward+backward': await profile(
    sequenceProgram(
      config,
      { adapter, trained: 'adapter', folded: true, loss: 'policy_gradient' },
      { blocks: BLOCKS },
    ),
    trainingFeeds(config),
  ),
  'sampling step': await profile(stepProgram(config, {}), stepFeeds(config)),
}
for (const [graph, operators] of Object.entries(graphs)) {
  const total = operators.reduce((sum, [, ms]) => sum + ms, 0)
  console.log(`${graph}: ${total.toFixed(2)} ms`)
  for (const [name, ms] of operators.slice(0, 8)) {
    console.log(
      `  ${name.padEnd(30)} ${ms.toFixed(2).padStart(8)} ms ${((100 * ms) / total).toFixed(0).padStart(4)}%`,
    )
  }
}
await writeJsonAtomic(new URL('results/operators.json', import.meta.url).pathname, {
  machine: { processor: cpus()[0]?.model ?? 'unknown', threads: availableParallelism() },
  versions: { node: process.version, 'onnxruntime-node': ort.env.versions.node },
  milliseconds: Object.fromEntries(
    Object.entries(graphs).map(([graph, operators]) => [graph, Object.fromEntries(operators)]),
  ),
})
