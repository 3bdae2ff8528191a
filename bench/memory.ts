/**
 * Peak memory of loading a model, of sampling and of a training step, and how it grows with the model, the length of the
 * sequences and the number of adapters: random checkpoints, each case in a process of its own, whose highest use the
 * operating system counts. Run it with `npx tsx bench/memory.ts`; the figures go to bench/results/memory.json and from
 * there into docs/models.md by `npx tsx scripts/models-figures.ts`.
 */

import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, cpus, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { ModelConfig } from '../src/engine/checkpoint/config.ts'
import { openCheckpoint, saveCheckpoint } from '../src/engine/checkpoint/folder.ts'
import { openBase } from '../src/engine/onnx/base.ts'
import { defaultLimits } from '../src/engine/onnx/limits.ts'
import { frozenPolicy, loraPolicy } from '../src/engine/onnx/policy.ts'
import { runtimeVersion } from '../src/engine/onnx/runtime.ts'
import { initialWeights } from '../src/engine/onnx/trainer.ts'
import { policyLoss } from '../src/engine/testing/update.ts'
import { referenceSettings } from '../src/experiment/defaults.ts'
import { writeJsonAtomic } from '../src/files.ts'
import { seedsOf } from '../src/random.ts'

export interface MemoryCase {
  model: string
  /** Tokens of a sequence: a prompt and a completion, each half of it. */
  length: number
  adapters: number
}

export interface MemoryFigures {
  /** MiB: after starting, after loading, after sampling from the base, after a step of every adapter. */
  start: number
  load: number
  sample: number
  train: number
}

/** Prompts of a batch, and completions of each. */
const PROMPTS = 2
const COPIES = 4

const shape = (
  hiddenSize: number,
  intermediateSize: number,
  layers: number,
  [heads, kvHeads]: [number, number],
  vocabSize = 49152,
): ModelConfig => ({
  architecture: 'llama',
  vocabSize,
  hiddenSize,
  layers,
  heads,
  kvHeads,
  headDim: 64,
  intermediateSize,
  rmsNormEps: 1e-5,
  ropeTheta: 1e5,
  ropeScaling: null,
  tieEmbeddings: true,
  attentionBias: false,
  qkNorm: false,
  contextLength: 2048,
  bosTokenId: null,
  eosTokenIds: [2],
})

/** By their number of parameters; the last two have SmolLM2's shapes. */
const models: Record<string, ModelConfig> = {
  '16M': shape(256, 768, 4, [4, 2]),
  '55M': shape(512, 1408, 10, [8, 4]),
  '135M': shape(576, 1536, 30, [9, 3]),
  '362M': shape(960, 2560, 32, [15, 5]),
}

const cases: MemoryCase[] = [
  ...Object.keys(models).map((model) => ({ model, length: 256, adapters: 1 })),
  ...[64, 128, 512, 1024].map((length) => ({ model: '135M', length, adapters: 1 })),
  ...[2, 4].map((adapters) => ({ model: '135M', length: 256, adapters })),
]

/** One case, in the process that is measured. */
async function measure(folder: string, { length, adapters }: MemoryCase): Promise<MemoryFigures> {
  const peak = () => process.resourceUsage().maxRSS / 1024
  const start = peak()
  const { config, loadWeights } = await openCheckpoint(folder)
  const base = openBase(config, await loadWeights(), defaultLimits(config), { givesUp: true })
  const half = length / 2
  const token = (i: number) => (i * 7919 + 13) % config.vocabSize
  const prompts = Array.from({ length: PROMPTS }, (_, p) =>
    Array.from({ length: half }, (_, i) => token(i + 1000 * p)),
  )
  const frozen = frozenPolicy(base)
  // The lanes load in the background: the first score says that they have.
  await frozen.logprobs([{ prompt: [token(1)], completion: [token(2)] }], { temperature: 1 })
  const load = peak()
  await frozen.sample(
    prompts.map((prompt, seed) => ({ prompt, seeds: seedsOf(COPIES, seed) })),
    { maxTokens: half, temperature: 1, topP: 0.95, stop: [] },
  )
  const sample = peak()
  const batch = prompts.flatMap((prompt, p) =>
    Array.from({ length: COPIES }, (_, c) => {
      const completion = Array.from({ length: half }, (_, i) => token(i + 100 * (p * COPIES + c)))
      return {
        prompt,
        completion,
        logprobs: completion.map(() => -10),
        advantages: completion.map(() => (c % 2 === 0 ? 1e-3 : -1e-3)),
      }
    }),
  )
  const { train } = referenceSettings
  const policies = Array.from({ length: adapters }, (_, seed) =>
    loraPolicy(base, 'random', { ...train.lora, seed }),
  )
  const loss = policyLoss()
  // The first once more: by then all have their optimiser's state.
  for (const policy of [...policies, policies[0]]) {
    await policy.forwardBackward(batch, loss)
    await policy.optimStep(train)
  }
  const figures = { start, load, sample, train: peak() }
  await base.close()
  return figures
}

/** Runs this file in a process of its own; a child starts with its parent's highest use, so the parent stays small. */
async function child<T>(task: 'make' | 'measure', folder: string, about: unknown): Promise<T> {
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--import',
    import.meta.resolve('tsx'),
    fileURLToPath(import.meta.url),
    task,
    folder,
    JSON.stringify(about),
  ])
  return JSON.parse(stdout) as T
}

const [task, folder, about] = process.argv.slice(2)
if (task === 'make') {
  const config = models[JSON.parse(about) as string]
  const weights = initialWeights(config, 1)
  await saveCheckpoint(folder, config, weights, 'BF16')
  console.log([...weights.values()].reduce((sum, { data }) => sum + data.length, 0))
} else if (task === 'measure') {
  console.log(JSON.stringify(await measure(folder, JSON.parse(about) as MemoryCase)))
} else {
  const scratch = await mkdtemp(join(tmpdir(), 'memory-'))
  const measured: (MemoryCase & MemoryFigures)[] = []
  const parameters: Record<string, number> = {}
  try {
    for (const name of Object.keys(models)) {
      const checkpoint = join(scratch, name)
      parameters[name] = await child<number>('make', checkpoint, name)
      for (const one of cases.filter(({ model }) => model === name)) {
        const figures = await child<MemoryFigures>('measure', checkpoint, one)
        measured.push({ ...one, ...figures })
        const shown = Object.entries(figures).map(([key, value]) => `${key} ${value.toFixed(0)} MiB`)
        console.log(`${name}, ${one.length} tokens, ${one.adapters} adapters: ${shown.join(', ')}`)
      }
      await rm(checkpoint, { recursive: true })
    }
  } finally {
    await rm(scratch, { recursive: true })
  }
  await writeJsonAtomic(new URL('results/memory.json', import.meta.url).pathname, {
    machine: {
      processor: cpus()[0]?.model ?? 'unknown',
      threads: availableParallelism(),
      memoryGiB: Math.round(totalmem() / 2 ** 30),
    },
    versions: { node: process.version, 'onnxruntime-node': runtimeVersion('native') },
    batch: { prompts: PROMPTS, completions: PROMPTS * COPIES, lora: referenceSettings.train.lora },
    parameters,
    cases: measured,
  })
}
