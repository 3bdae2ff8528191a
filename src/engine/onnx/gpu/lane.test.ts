/**
 * The GPU lane's graphs, CUDA's and WebGPU's, on the CPU, in single precision and in halves: what they compute is held to
 * the CPU lane's. On a device, `selftest --device` does the same.
 */
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, it } from 'vitest'
import { random, seedsOf } from '../../../random.ts'
import type { ModelConfig } from '../../checkpoint/config.ts'
import { openCheckpoint, projections, weightShapes } from '../../checkpoint/folder.ts'
import type { Completion } from '../../contract.ts'
import { type Lane, type LaneOptions, type Model, type NamedArray, openLane } from '../lane.ts'
import { loraA, loraB } from '../programs.ts'
import { gpuHere } from '../webgpu/testing.ts'
import { hasCompiler } from './kernels/testing/emulator.ts'
import { hostDriver } from './kernels/testing/hostDriver.ts'
import { openGpuLane } from './lane.ts'

const RANK = 4
const adapter = { rank: RANK, scale: 2 }
const models = [
  { name: 'the base', overlay: null },
  { name: 'an adapter', overlay: 0, adapter },
]

const precisions = [
  { precision: 'float32', logprob: 2e-5, loss: 5e-7, gradient: 1e-5 },
  { precision: 'float16', logprob: 2e-2, loss: 1e-3, gradient: 5e-3 },
] as const
const graphs = [
  { graphs: 'CUDA', plain: false },
  { graphs: 'WebGPU', plain: true },
]
/** Our own kernels, emulated, on models that they fit. */
const kernelCases = ['llama', 'qwen2', 'qwen3'].map((model) => ({
  model: `${model} of wide heads`,
  graphs: 'CUDA, with our own kernels',
  plain: false,
  kernels: true,
  ...precisions[1],
}))
/** WebGPU's, which are no graphs for ONNX Runtime: on a GPU in software. */
const webgpuCases = ['llama', 'qwen2', 'qwen3', 'qwen2 of wide heads'].map((model) => ({
  model,
  graphs: 'WebGPU, by our own kernels alone',
  plain: undefined,
  kernels: false,
  ...precisions[1],
}))
const cases = ['llama', 'qwen2', 'qwen3', 'qwen2 of three query heads a key'].flatMap((model) =>
  precisions.flatMap((within) => graphs.map((made) => ({ model, ...made, kernels: false, ...within }))),
)

async function load(model: string): Promise<{ config: ModelConfig; weights: NamedArray[] }> {
  const [architecture, ...odd] = model.split(' ')
  const folder = fileURLToPath(new URL(`../../fixtures/${architecture}`, import.meta.url))
  const checkpoint = await openCheckpoint(folder)
  if (odd.length === 0) {
    const weights = await checkpoint.loadWeights()
    return {
      config: checkpoint.config,
      weights: [...weights].map(([name, { shape, data }]) => ({ name, shape, data })),
    }
  }
  // What WebGPU cuts: a long inner axis, and rows of logits, in parts that do not fit evenly.
  const wide = { intermediateSize: 2048, vocabSize: odd.includes('wide') ? 602 : 601 }
  const headDim = odd.includes('wide') ? 64 : 16
  const config = { ...checkpoint.config, heads: 6, kvHeads: 2, headDim, ...wide }
  const stream = random('gpu lane', model)
  const weights = [...weightShapes(config)].map(([name, shape]) => {
    const size = shape.reduce((product, n) => product * n, 1)
    return { name, shape, data: Float32Array.from({ length: size }, () => 0.2 * stream.normal()) }
  })
  return { config, weights }
}

const software = await gpuHere()

describe.each([...cases, ...(hasCompiler() ? kernelCases : []), ...(software === null ? [] : webgpuCases)])(
  'a $model in $precision, graphs for $graphs',
  ({ model: name, ...within }) => {
    let cpu: Lane
    let gpu: Lane
    let vocabulary = 0
    let adapterOf: (key: string) => NamedArray[]

    beforeAll(async () => {
      const { config, weights } = await load(name)
      vocabulary = config.vocabSize
      const options: LaneOptions = {
        config,
        weights,
        threads: 1,
        prefillTokens: 1000,
        folds: false,
        packsSteps: false,
        rotaryLength: 64,
        place: { device: 'cpu', precision: 'float32' },
      }
      cpu = openLane(options)
      const place = { device: 'cpu', precision: within.precision } as const
      gpu = await openGpuLane(
        { ...options, place },
        within.plain === undefined ? 'webgpu' : 'cpu',
        within.plain,
        within.kernels ? hostDriver() : null,
      )
      adapterOf = (key) => {
        const stream = random('gpu lane', name, key)
        const draw = (shape: number[]) => ({
          shape,
          data: Float32Array.from({ length: shape[0] * shape[1] }, () => 0.1 * stream.normal()),
        })
        return projections(config).flatMap(({ name, in: inputs, out }) => [
          { name: loraA(name), ...draw([RANK, inputs]) },
          { name: loraB(name), ...draw([out, RANK]) },
        ])
      }
      const tensors = adapterOf('adapter')
      for (const lane of [cpu, gpu]) await lane.overlay({ kind: 'overlay', id: 0, tensors })
    })

    const prompt = (length: number, seed: number) =>
      Array.from({ length }, (_, i) => (i * 7 + seed * 13 + 3) % vocabulary)
    /** Samples of prompts of different lengths. */
    const generate = async (model: Model & { name: string }, sampling: { topP: number; stop: number[] }) => {
      const requests = [
        { prompt: prompt(9, 1), seeds: [1, 2, 3] },
        { prompt: prompt(1, 2), seeds: [4, 5] },
        { prompt: prompt(37, 5), seeds: [6] },
      ]
      const settings = { maxTokens: 12, temperature: 0.9, ...sampling }
      const groups = await gpu.generate(
        { kind: 'generate', ...model, requests, sampling: settings },
        () => {},
        () => {},
      )
      return groups.flatMap((group, r) => group.map((sample) => ({ prompt: requests[r].prompt, sample })))
    }
    const batchOf = (samples: { prompt: number[]; sample: Completion }[]) => ({
      rows: samples.map(({ prompt, sample }, i) => ({
        prompt,
        members: [i],
        length: prompt.length + sample.tokens.length - 1,
      })),
      completions: samples.map(({ sample }) => sample.tokens),
    })

    it.each(models)('samples what the CPU scores alike, with $name', async (model) => {
      for (const topP of [1, 0.6]) {
        const samples = await generate(model, { topP, stop: [] })
        const scores = await cpu.score({
          kind: 'score',
          ...model,
          batches: [batchOf(samples)],
          temperature: 0.9,
        })
        samples.forEach(({ sample }, i) => {
          expect(sample.tokens).toHaveLength(12)
          sample.logprobs.forEach((logprob, t) => {
            expect(Math.abs(logprob - (scores.get(i)?.[t] ?? 0))).toBeLessThan(within.logprob)
            // The nucleus holds at least topP, so renormalising adds at most that much.
            const gain = sample.samplingLogprobs[t] - logprob
            expect(gain).toBeGreaterThan(-1e-5)
            expect(gain).toBeLessThan(-Math.log(topP) + 1e-4)
          })
        })
      }
    })

    it('draws the same from the same seeds, and ends at a stop token', async () => {
      const [first, again] = [
        await generate(models[0], { topP: 1, stop: [] }),
        await generate(models[0], { topP: 1, stop: [] }),
      ]
      expect(first).toEqual(again)
      const stop = first[0].sample.tokens[4]
      const cut = await generate(models[0], { topP: 1, stop: [stop] })
      cut.forEach(({ sample }, i) => {
        const whole = first[i].sample.tokens
        const end = whole.indexOf(stop)
        expect(sample.finish).toBe(end < 0 ? 'length' : 'stop')
        expect(sample.tokens).toEqual(end < 0 ? whole : whole.slice(0, end + 1))
      })
    })

    it('samples the same after many generations of other shapes', async () => {
      const first = await generate(models[0], { topP: 1, stop: [] })
      // Each shape's kernels are compiled anew for the emulator, which keeps them all; software takes its time over others.
      for (let n = 1; n <= (within.kernels || within.plain === undefined ? 8 : 70); n++) {
        const requests = [{ prompt: prompt(3, n), seeds: seedsOf(n, n) }]
        const sampling = { maxTokens: 2, temperature: 1, topP: n % 2 === 0 ? 1 : 0.9, stop: [] }
        const job = { kind: 'generate', ...models[0], requests, sampling } as const
        await gpu.generate(
          job,
          () => {},
          () => {},
        )
      }
      expect(await generate(models[0], { topP: 1, stop: [] })).toEqual(first)
    })

    it('keeps an adapter as it was sent, whoever changes the shared arrays after', async () => {
      const shared = adapterOf('shared').map(({ data, ...rest }) => {
        const copy = new Float32Array(new SharedArrayBuffer(data.byteLength))
        copy.set(data)
        return { ...rest, data: copy }
      })
      const sampled = (overlay: number) =>
        generate({ name: 'shared', overlay, adapter }, { topP: 1, stop: [] })
      const send = (id: number) => gpu.overlay({ kind: 'overlay', id, tensors: shared })
      await send(1)
      const before = await sampled(1)
      for (const { data } of shared) data.fill(0)
      expect(await sampled(1)).toEqual(before)
      await gpu.overlay({ kind: 'overlay', id: 1, tensors: null })
      await send(2)
      const zero = await sampled(2)
      expect(zero).toEqual(await generate(models[0], { topP: 1, stop: [] }))
      expect(zero).not.toEqual(before)
    })

    it('learns what the CPU learns', async () => {
      const model = models[1]
      const samples = await generate(model, { topP: 1, stop: [] })
      // In batches of other numbers of rows, lengths and targets.
      const { rows, completions } = batchOf(samples)
      const batch = (from: number, to?: number) => ({
        rows: rows.slice(from, to),
        completions,
        advantages: samples.map(({ sample }) => sample.tokens.map((_, t) => ((t % 3) - 1) / 100)),
        old: samples.map(({ sample }) => sample.logprobs),
      })
      const job = {
        kind: 'train',
        ...model,
        batches: [batch(0, 4), batch(4, 5), batch(5)],
        loss: 'policy_gradient',
        temperature: 0.9,
        low: 0.8,
        high: 1.28,
        names: [loraA('model.layers.0.self_attn.q_proj'), loraB('model.layers.1.mlp.down_proj')],
      } as const
      const [a, b] = [await cpu.train(job), await gpu.train(job)]
      expect(Math.abs(b.loss - a.loss)).toBeLessThan(within.loss)
      expect(b.logprobs.size).toBe(samples.length)
      b.logprobs.forEach((line, index) => {
        line.forEach((logprob, t) => {
          expect(Math.abs(logprob - (a.logprobs.get(index)?.[t] ?? 0))).toBeLessThan(within.logprob)
        })
      })
      a.gradients.forEach((gradient, n) => {
        const difference = gradient.map((value, i) => value - b.gradients[n][i])
        expect(Math.hypot(...difference) / Math.hypot(...gradient)).toBeLessThan(within.gradient)
      })
    })
  },
)
