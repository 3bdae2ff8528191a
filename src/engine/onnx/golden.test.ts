import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { seedsOf } from '../../random.ts'
import { loadAdapter } from '../checkpoint/adapter.ts'
import { openCheckpoint } from '../checkpoint/folder.ts'
import { openSafetensors, type TensorReader } from '../checkpoint/safetensors.ts'
import type { AdamOptions, Completion } from '../contract.ts'
import { openBase } from './base.ts'
import { defaultLimits } from './limits.ts'
import { frozenPolicy, loraPolicy } from './policy.ts'
import { loraA, loraB } from './programs.ts'
import { runtimeOf } from './runtime.ts'
import { openLogits } from './testing/logits.ts'
import { trainable } from './trainable.ts'

// PyTorch, transformers and PEFT computed these (test/golden/engine.py).
const fixtures = fileURLToPath(new URL('../fixtures/', import.meta.url))

interface Golden {
  temperature: number
  sequences: {
    prompt: number[]
    completion: number[]
    weights: number[]
    baseLogprobs: number[]
    adapterLogprobs: number[]
    oldLogprobs: number[]
    advantages: number[]
    mask: number[]
  }[]
  policy: {
    loss: number
    tokens: number
    clippedShare: number
    clipLow: number
    clipHigh: number
    temperature: number
    gradNorm: number
  }
  policyAdam: AdamOptions
  supervised: { adapter: { loss: number; gradNorm: number }; base: { loss: number; gradNorm: number } }
  supervisedBaseAdam: AdamOptions
}

const opened: TensorReader[] = []
afterAll(() => Promise.all(opened.map((reader) => reader.close())))

async function open(name: string) {
  const folder = join(fixtures, name)
  const golden = JSON.parse(readFileSync(join(folder, 'golden.json'), 'utf8')) as Golden
  const checkpoint = await openCheckpoint(folder)
  const tensors = await openSafetensors(join(folder, 'golden.safetensors'))
  const full = await openSafetensors(join(folder, 'golden-full.safetensors'))
  opened.push(tensors, full)
  return { folder, golden, checkpoint, config: checkpoint.config, tensors, full }
}

/** Largest |a - b| over the largest |b|. */
function relativeError(a: Float32Array, b: Float32Array): number {
  expect(a.length).toBe(b.length)
  let difference = 0
  let size = 0
  for (let i = 0; i < a.length; i++) {
    difference = Math.max(difference, Math.abs(a[i] - b[i]))
    size = Math.max(size, Math.abs(b[i]))
  }
  return difference / size
}

const peftName = (name: string) => `base_model.model.${name}.weight`

const cases = (['cpu', 'wasm'] as const).flatMap((device) =>
  ['llama', 'qwen2', 'qwen3', 'llama3'].map((name) => [name, device] as const),
)

describe.each(cases)('%s on %s against PyTorch, transformers and PEFT', (name, device) => {
  const place = { device, precision: 'float32' } as const
  it.each(['base', 'adapter'])('computes the same logits: %s', async (kind) => {
    const { folder, golden, tensors } = await open(name)
    const adapter = kind === 'adapter' ? join(folder, 'adapter') : undefined
    const logits = await openLogits(folder, { adapter, runtime: runtimeOf(device) })
    for (const [i, { prompt, completion }] of golden.sequences.entries()) {
      const expected = await tensors.read(`logits.${kind}.${i}`)
      expect(relativeError(await logits.of([...prompt, ...completion]), expected)).toBeLessThan(1e-4)
    }
    await logits.close()
  })

  // One batch, many small ones, prompts shared in a row or not: the cutting must not show.
  const cuts = [
    { tokenBudget: 4096, rowLimit: 4096 },
    { tokenBudget: 16, rowLimit: 1 },
  ].flatMap((limits) => [true, false].map((folds) => ({ ...limits, folds, lanes: folds ? 2 : 1 })))

  it.each(cuts)('learns by the policy gradient as it does: %o', async (cut) => {
    const { folder, golden, checkpoint, config, tensors } = await open(name)
    const { rank, alpha, projections } = await loadAdapter(join(folder, 'adapter'), config)
    const base = openBase(
      config,
      await checkpoint.loadWeights(),
      { ...defaultLimits(config, 2, device), ...cut },
      { place },
    )
    const lora = { rank, scale: alpha / rank }
    const state = trainable(
      [...projections].flatMap(([key, { a, b }]) => [
        { name: loraA(key), ...a },
        { name: loraB(key), ...b },
      ]),
    )
    const overlay = await base.overlay(state.tensors)
    const model = base.folds
      ? { overlay: await base.overlay(state.tensors, lora) }
      : { overlay, adapter: lora }
    const scores = await base.score(model, golden.sequences, golden.temperature)
    golden.sequences.forEach((sequence, i) => {
      expect(relativeError(scores[i], Float32Array.from(sequence.adapterLogprobs))).toBeLessThan(1e-4)
    })

    const { clipLow, clipHigh, temperature, ...expected } = golden.policy
    const data = golden.sequences.map(({ oldLogprobs, ...datum }) => ({ ...datum, logprobs: oldLogprobs }))
    const loss = { kind: 'policy_gradient', clipLow, clipHigh, temperature } as const
    const report = await base.accumulate({ overlay, adapter: lora }, state.names, state.gradients, {
      kind: 'policy_gradient',
      data,
      loss,
    })
    expect(report.loss).toBeCloseTo(expected.loss, 4)
    expect(report.tokens).toBe(expected.tokens)
    expect(report.clippedShare).toBeCloseTo(expected.clippedShare, 6)
    for (const [i, key] of state.names.entries()) {
      const gradient = await tensors.read(`policy.grad.${peftName(key)}`)
      expect(relativeError(state.gradients.arrays[i], gradient), key).toBeLessThan(1e-4)
    }
    const { gradNorm } = await state.step({ ...golden.policyAdam, weightDecay: 0 })
    expect(gradNorm / expected.gradNorm).toBeCloseTo(1, 5)
    for (const [i, key] of state.names.entries()) {
      const parameter = await tensors.read(`policy.adam.wd0.0.step1.${peftName(key)}`)
      expect(relativeError(state.arrays[i], parameter), key).toBeLessThan(1e-4)
    }
    await base.close()
  })

  it('takes two AdamW steps with weight decay as it does', async () => {
    const { folder, golden, checkpoint, config, tensors } = await open(name)
    const base = openBase(config, await checkpoint.loadWeights(), defaultLimits(config, 1, device), { place })
    const { rank, alpha } = await loadAdapter(join(folder, 'adapter'), config)
    const policy = loraPolicy(base, name, { rank, alpha, seed: 0 })
    await policy.load(join(folder, 'adapter'))
    const { clipLow, clipHigh, temperature } = golden.policy
    const data = golden.sequences.map(({ oldLogprobs, ...datum }) => ({ ...datum, logprobs: oldLogprobs }))
    for (let step = 0; step < 2; step++) {
      await policy.forwardBackward(data, { kind: 'policy_gradient', clipLow, clipHigh, temperature })
      await policy.optimStep({ ...golden.policyAdam, weightDecay: 0.1 })
    }
    const saved = await mkdtemp(join(tmpdir(), 'golden-'))
    await policy.save(saved)
    const after = await loadAdapter(saved, config)
    for (const [key, { a, b }] of after.projections) {
      const expectedA = await tensors.read(`policy.adam.wd0.1.step2.${peftName(loraA(key))}`)
      const expectedB = await tensors.read(`policy.adam.wd0.1.step2.${peftName(loraB(key))}`)
      expect(relativeError(a.data, expectedA), key).toBeLessThan(1e-4)
      expect(relativeError(b.data, expectedB), key).toBeLessThan(1e-4)
    }
    await rm(saved, { recursive: true })
    await base.close()
  })

  it('learns every weight by cross-entropy as it does', async () => {
    const { golden, checkpoint, config, full } = await open(name)
    const weights = await checkpoint.loadWeights()
    const base = openBase(
      config,
      weights,
      { ...defaultLimits(config, 1, device), tokenBudget: 24 },
      { place },
    )
    const state = trainable([...weights].map(([key, { shape, data }]) => ({ name: key, shape, data })))
    const report = await base.accumulate({ overlay: null }, state.names, state.gradients, {
      kind: 'cross_entropy',
      data: golden.sequences,
    })
    expect(report.loss / golden.supervised.base.loss).toBeCloseTo(1, 5)
    for (const [i, key] of state.names.entries()) {
      const gradient = await full.read(`supervised.grad.${key}`)
      expect(relativeError(state.gradients.arrays[i], gradient), key).toBeLessThan(1e-4)
    }
    const { gradNorm } = await state.step(golden.supervisedBaseAdam)
    expect(gradNorm / golden.supervised.base.gradNorm).toBeCloseTo(1, 5)
    for (const [i, key] of state.names.entries()) {
      const parameter = await full.read(`supervised.adam.wd0.1.step1.${key}`)
      expect(relativeError(state.arrays[i], parameter), key).toBeLessThan(1e-4)
    }
    await base.close()
  })

  it('samples with the log-probabilities that training computes', async () => {
    const { folder, golden, checkpoint, config } = await open(name)
    let folded: Completion[][] | undefined
    for (const [folds, packsSteps] of [
      [true, false],
      [true, true],
      [false, false],
      [false, true],
    ]) {
      const limits = { ...defaultLimits(config, 1), folds, packsSteps, decodeBatch: 5, prefillTokens: 20 }
      const base = openBase(config, await checkpoint.loadWeights(), limits, { place })
      const { rank, alpha } = await loadAdapter(join(folder, 'adapter'), config)
      const policy = loraPolicy(base, name, { rank, alpha, seed: 0 })
      await policy.load(join(folder, 'adapter'))
      const requests = golden.sequences.map(({ prompt }, seed) => ({
        prompt,
        seeds: seedsOf(1 + (seed % 3), seed),
      }))
      const options = { maxTokens: 12, temperature: 0.9, topP: 0.95, stop: [3, 7] }
      const groups = await policy.sample(requests, options)
      // Between the two another model on the same base, whose program takes the first one's place.
      const [[unadapted]] = await frozenPolicy(base).sample(requests.slice(0, 1), options)
      expect(unadapted.logprobs).not.toEqual(groups[0][0].logprobs)
      const again = await policy.sample(requests, options)
      expect(again).toEqual(groups)
      // A small model's weights are packed only where that changes no bit.
      if (folds && place.device === 'cpu') {
        folded ??= groups
        expect(groups).toEqual(folded)
      }
      const flat = groups.flatMap((group, i) =>
        group.map((completion) => ({ prompt: requests[i].prompt, completion })),
      )
      expect(groups.map((group) => group.length)).toEqual(requests.map(({ seeds }) => seeds.length))
      const scores = await policy.logprobs(
        flat.map(({ prompt, completion }) => ({ prompt, completion: completion.tokens })),
        { temperature: 0.9 },
      )
      for (const [i, { completion }] of flat.entries()) {
        const { tokens, logprobs, samplingLogprobs, finish } = completion
        for (let t = 0; t < tokens.length; t++) {
          expect(Math.abs(scores[i][t] - logprobs[t])).toBeLessThan(1e-4)
          expect(samplingLogprobs[t]).toBeGreaterThanOrEqual(logprobs[t])
          expect(samplingLogprobs[t]).toBeLessThanOrEqual(logprobs[t] - Math.log(0.95) + 1e-6)
        }
        expect(finish === 'stop').toBe(options.stop.includes(tokens[tokens.length - 1]))
        expect(tokens.slice(0, -1).some((token) => options.stop.includes(token))).toBe(false)
        if (finish === 'length') expect(tokens.length).toBe(12)
      }
      await base.close()
    }
  })
})
