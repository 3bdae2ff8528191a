/**
 * One training step on a device: seconds to draft the notes, read the boards, go forward and backward, and update,
 * at the reference's lengths, with random weights and no stop token, so that every length is fixed.
 *
 *     npx tsx bench/gpu.ts --device cuda --shape qwen2.5-1.5b --out bench/results/gpu-cuda-qwen2.5-1.5b.json
 *     npx tsx bench/gpu.ts --device cpu --shape small --question 75 --notes 40 --replies 36 --rank 16
 *
 * `--sweep` also halves and doubles copies, problems and the notes' length, one at a time; docs/speed.md says how a step
 * grows (scripts/growth.ts).
 */
import { spawnSync } from 'node:child_process'
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import type { ModelConfig } from '../src/engine/checkpoint/config.ts'
import { type Weights, weightShapes } from '../src/engine/checkpoint/folder.ts'
import type { PolicyDatum } from '../src/engine/contract.ts'
import { openBase } from '../src/engine/onnx/base.ts'
import { chooseDevice, deviceMemory, nvidiaGpu } from '../src/engine/onnx/device.ts'
import type { Device } from '../src/engine/onnx/devices.ts'
import { defaultLimits, gpuLimits } from '../src/engine/onnx/limits.ts'
import { loraPolicy } from '../src/engine/onnx/policy.ts'
import { runtimeVersion } from '../src/engine/onnx/runtime.ts'
import { adamStep, policyLoss } from '../src/engine/testing/update.ts'
import { writeJsonAtomic } from '../src/files.ts'
import { random, seedsOf } from '../src/random.ts'
import { boardTokens, type Sizes, shapes } from './gpu-step.ts'

const { values: flags } = parseArgs({
  options: {
    device: { type: 'string', default: 'cuda' },
    shape: { type: 'string', default: 'qwen2.5-1.5b' },
    problems: { type: 'string', default: '12' },
    copies: { type: 'string', default: '4' },
    question: { type: 'string', default: '150' },
    notes: { type: 'string', default: '256' },
    replies: { type: 'string', default: '384' },
    rank: { type: 'string', default: '32' },
    repeats: { type: 'string', default: '3' },
    sweep: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})
const sizes: Sizes = {
  problems: Number(flags.problems),
  copies: Number(flags.copies),
  questionTokens: Number(flags.question),
  noteTokens: Number(flags.notes),
  replyTokens: Number(flags.replies),
  rank: Number(flags.rank),
}
const config = shapes[flags.shape]
if (config === undefined) throw new Error(`--shape is one of ${Object.keys(shapes).join(', ')}`)

type Phase = 'draft' | 'prefill' | 'read' | 'train' | 'optimise'

interface Measured extends Sizes {
  /** Seconds of the very first step, which also compiles the programs. */
  warmUp?: Record<Phase, number>
  repetitions: Record<Phase, number>[]
  /** In use before the first step: of a CPU the process's, of a GPU what its driver says of all. */
  idleMemoryMiB: number
  peakMemoryMiB: number
}

const seconds = async <T>(work: () => Promise<T>): Promise<[T, number]> => {
  const start = performance.now()
  const result = await work()
  return [result, (performance.now() - start) / 1000]
}
const say = (text: string) => process.stderr.write(`${text}\n`)

if (flags.sweep) await sweep()
else await measure(sizes)

/**
 * The sizes that were asked for, and each of three halved and doubled. A process for each: the memory of one is not held
 * for the next, and what a first step compiles and tunes is in no repetition.
 */
async function sweep(): Promise<void> {
  const varied = (['copies', 'problems', 'noteTokens'] as const).flatMap((what) =>
    [0.5, 2].map((factor) => ({ ...sizes, [what]: Math.round(factor * sizes[what]) })),
  )
  let whole: { measured: Measured[] } | undefined
  for (const size of [sizes, ...varied]) {
    const its = { problems: size.problems, copies: size.copies, notes: size.noteTokens }
    const same = {
      device: flags.device,
      shape: flags.shape,
      question: flags.question,
      replies: flags.replies,
    }
    const options = { ...same, ...its, rank: flags.rank, repeats: flags.repeats }
    const { status, stdout } = spawnSync(
      process.execPath,
      [
        ...process.execArgv,
        process.argv[1],
        ...Object.entries(options).map(([name, is]) => `--${name}=${is}`),
      ],
      { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] },
    )
    if (status !== 0) throw new Error(`${JSON.stringify(its)} ended with ${status}`)
    const found = JSON.parse(stdout) as { measured: Measured[] }
    whole = { ...found, measured: [...(whole?.measured ?? []), ...found.measured] }
    if (flags.out !== undefined) await writeJsonAtomic(flags.out, whole)
  }
  if (flags.out === undefined) process.stdout.write(`${JSON.stringify(whole, null, 2)}\n`)
}

/** Says each phase as it ends and writes each step, so that a step cut short on a slow device is not all lost. */
async function measure(size: Sizes): Promise<void> {
  const place = await chooseDevice(flags.device as Device | 'auto')
  const memory = await deviceMemory(place.device)
  const limits = place.device === 'cpu' ? defaultLimits(config) : gpuLimits(config, memory, place)
  const [weights, weightSeconds] = await seconds(async () => randomWeights(config))
  say(
    `${place.device}, ${place.precision}, ${(memory / 2 ** 30).toFixed(0)} GiB free, weights made in ${weightSeconds.toFixed(1)} s`,
  )
  const usedMemory = async () =>
    place.device === 'cpu'
      ? process.resourceUsage().maxRSS / 1024
      : Number.parseInt(await nvidiaGpu('memory.used'), 10) || 0
  const base = openBase(config, weights, limits, { givesUp: true, place })
  const policy = loraPolicy(base, flags.shape, { rank: size.rank, alpha: 2 * size.rank, seed: 1 })
  const stream = random('bench gpu')
  const prompt = (length: number) => Array.from({ length }, () => stream.int(config.vocabSize))
  const found: Measured = { ...size, repetitions: [], idleMemoryMiB: await usedMemory(), peakMemoryMiB: 0 }
  const whole = {
    bench: 'gpu',
    shape: flags.shape,
    parameters: base.parameters,
    device: place.device,
    precision: place.precision,
    gpu: await nvidiaGpu('name,driver_version'),
    processor: cpus()[0]?.model,
    versions: { node: process.version, 'onnxruntime-node': runtimeVersion('native') },
    measured: [found],
  }
  const look = async () => {
    found.peakMemoryMiB = Math.max(found.peakMemoryMiB, await usedMemory())
  }
  const watch = setInterval(() => void look(), 500)
  say(JSON.stringify(size))
  for (let repeat = 0; repeat <= Number(flags.repeats); repeat++) {
    const times: Partial<Record<Phase, number>> = {}
    const timed = async <T>(phase: Phase, work: () => Promise<T>): Promise<T> => {
      const [result, time] = await seconds(work)
      times[phase] = time
      say(`  ${repeat === 0 ? 'warm-up' : `repeat ${repeat}`}, ${phase}: ${time.toFixed(2)} s`)
      return result
    }
    const prompts = (length: number) =>
      Array.from({ length: size.problems }, (_, p) => ({
        prompt: prompt(length),
        seeds: seedsOf(size.copies, repeat, p),
      }))
    const sampling = { temperature: 0.9, stop: [] }
    await timed('draft', () =>
      policy.sample(prompts(size.questionTokens), { ...sampling, maxTokens: size.noteTokens, topP: 0.95 }),
    )
    const boards = prompts(boardTokens(size))
    await timed('prefill', () => policy.sample(boards, { ...sampling, maxTokens: 1, topP: 1 }))
    const groups = await timed('read', () =>
      policy.sample(boards, { ...sampling, maxTokens: size.replyTokens, topP: 1 }),
    )
    const tokens = size.problems * size.copies * size.replyTokens
    const data = groups.flatMap((group, p) =>
      group.map(({ tokens: completion, logprobs }, copy): PolicyDatum => {
        const advantage = (copy % 2 === 0 ? 1 : -1) / tokens
        return { prompt: boards[p].prompt, completion, logprobs, advantages: completion.map(() => advantage) }
      }),
    )
    const loss = policyLoss(0.9)
    const report = await timed('train', () => policy.forwardBackward(data, loss))
    await timed('optimise', () => policy.optimStep(adamStep({ learningRate: 1e-4 })))
    await look()
    const drift = Math.max(
      ...report.logprobs.map((line, i) =>
        line.reduce((worst, l, t) => Math.max(worst, Math.abs(l - data[i].logprobs[t])), 0),
      ),
    )
    say(`  sampled against trained log-probabilities: ${drift.toExponential(1)}`)
    if (repeat === 0) found.warmUp = times as Record<Phase, number>
    else found.repetitions.push(times as Record<Phase, number>)
    if (flags.out !== undefined) await writeJsonAtomic(flags.out, whole)
  }
  clearInterval(watch)
  policy.dispose()
  await base.close()
  if (flags.out === undefined) process.stdout.write(`${JSON.stringify(whole, null, 2)}\n`)
}

/** Weights that cost little to make: normal(0, 0.02) draws, the same block over and over. */
function randomWeights(config: ModelConfig): Weights {
  const stream = random('bench weights')
  const block = Float32Array.from({ length: 1 << 20 }, () => 0.02 * stream.normal())
  return new Map(
    [...weightShapes(config)].map(([name, shape]) => {
      const data = new Float32Array(shape.reduce((product, n) => product * n, 1))
      if (name.endsWith('norm.weight')) data.fill(1)
      else {
        // Prime strides keep one row from repeating another.
        for (let at = 0, from = stream.int(1 << 19); at < data.length; from = (from * 7 + 1) % (1 << 19)) {
          const part = block.subarray(from, Math.min(block.length, from + data.length - at))
          data.set(part, at)
          at += part.length
        }
      }
      return [name, { shape, data }]
    }),
  )
}
