import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { random } from '../../random.ts'
import type { ModelConfig } from '../checkpoint/config.ts'
import type { AdamOptions, Policy, PolicyDatum } from '../contract.ts'
import { type Base, openBase } from './base.ts'
import { defaultLimits } from './limits.ts'
import { frozenPolicy, loraPolicy } from './policy.ts'
import { sharedZeros, threadedAdam } from './threadedAdam.ts'
import { createTrainer, initialWeights } from './trainer.ts'

const config: ModelConfig = {
  architecture: 'llama',
  vocabSize: 40,
  hiddenSize: 32,
  layers: 2,
  heads: 2,
  kvHeads: 1,
  headDim: 16,
  intermediateSize: 48,
  rmsNormEps: 1e-5,
  ropeTheta: 10_000,
  ropeScaling: null,
  tieEmbeddings: true,
  attentionBias: false,
  qkNorm: true,
  contextLength: 64,
  bosTokenId: null,
  eosTokenIds: [0],
}
const lora = { rank: 4, alpha: 8, seed: 5 }
const adam: AdamOptions = {
  learningRate: 0.02,
  beta1: 0.9,
  beta2: 0.999,
  epsilon: 1e-8,
  weightDecay: 0,
  maxGradNorm: 1,
}
const loss = { kind: 'policy_gradient', clipLow: 0.2, clipHigh: 0.28, temperature: 0.9 } as const
const sampling = { maxTokens: 10, temperature: 0.9, topP: 1, stop: [0] }
const requests = [
  { prompt: [1, 2, 3], seeds: [7, 8, 9] },
  { prompt: [4, 5, 6, 7, 8], seeds: [8, 10] },
]

async function batchOf(policy: Policy, seed: number): Promise<PolicyDatum[]> {
  const groups = await policy.sample(requests, sampling)
  const draw = random('advantages', seed)
  return groups.flatMap((group, i) =>
    group.map(({ tokens, logprobs }) => ({
      prompt: requests[i].prompt,
      completion: tokens,
      logprobs,
      advantages: tokens.map(() => draw.normal()),
    })),
  )
}

async function step(policy: Policy, seed: number) {
  const report = await policy.forwardBackward(await batchOf(policy, seed), loss)
  return { loss: report.loss, ...(await policy.optimStep(adam)) }
}

describe.each(['cpu', 'wasm'] as const)('a policy on %s', (device) => {
  const limits = { ...defaultLimits(config, 2, device), lanes: 2 }
  const base = openBase(config, initialWeights(config, 1), limits, {
    place: { device, precision: 'float32' },
  })
  afterAll(() => base.close())

  it('starts as the base and moves as it learns', async () => {
    const policy = loraPolicy(base, 'test', lora)
    const batch = await batchOf(policy, 0)
    const [own, frozen] = await Promise.all([
      policy.logprobs(batch, { temperature: 0.9 }),
      frozenPolicy(base).logprobs(batch, { temperature: 0.9 }),
    ])
    own.forEach((line, i) => {
      line.forEach((logprob, t) => {
        expect(logprob).toBeCloseTo(frozen[i][t], 5)
        expect(logprob).toBeCloseTo(batch[i].logprobs[t], 4)
      })
    })
    // On-policy, a step along the gradient raises sum_t advantage_t * logprob_t.
    const gain = (lines: Float32Array[]) =>
      lines.reduce((sum, line, i) => sum + line.reduce((s, v, t) => s + v * batch[i].advantages[t], 0), 0)
    const report = await policy.forwardBackward(batch, loss)
    expect(report.clippedShare).toBe(0)
    expect(report.tokens).toBe(batch.reduce((sum, { completion }) => sum + completion.length, 0))
    await policy.optimStep(adam)
    const after = await policy.logprobs(batch, { temperature: 0.9 })
    expect(gain(after)).toBeGreaterThan(gain(own))
  })

  it('is not touched by another on the same base', async () => {
    const alone = loraPolicy(base, 'test', lora)
    const expected = [await step(alone, 1), await step(alone, 2)]
    const first = loraPolicy(base, 'test', lora)
    const second = loraPolicy(base, 'test', { ...lora, seed: 6 })
    const mixed = [await step(first, 1)]
    await step(second, 9)
    mixed.push(await step(first, 2))
    expect(mixed).toEqual(expected)
  })

  it('goes on from its files exactly where it was', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'policy-'))
    const policy = loraPolicy(base, 'test', lora)
    await step(policy, 1)
    await policy.save(folder)
    const resumed = loraPolicy(base, 'test', { ...lora, seed: 99 })
    await resumed.load(folder)
    expect(await step(resumed, 2)).toEqual(await step(policy, 2))
    const other = loraPolicy(base, 'test', { ...lora, rank: 2 })
    await expect(other.load(folder)).rejects.toThrow('rank 4 and alpha 8, not 2 and 8')
    await rm(folder, { recursive: true })
  })

  it('is the same, and its files too, where threads update it in shared memory', async () => {
    const threads = threadedAdam(2)
    const shared: Base = {
      ...base,
      adam: threads,
      zeros: sharedZeros,
      // ONNX Runtime takes no shared memory.
      overlay: (tensors, fold) =>
        base.overlay(
          tensors.map((tensor) => ({ ...tensor, data: tensor.data.slice() })),
          fold,
        ),
    }
    const folders = await Promise.all(['plain-', 'shared-'].map((name) => mkdtemp(join(tmpdir(), name))))
    // Clipping would scale by norms whose sums were taken in another order.
    const unclipped = { ...adam, maxGradNorm: Number.POSITIVE_INFINITY }
    const learn = async (policy: Policy, seed: number) => {
      const { loss: value } = await policy.forwardBackward(await batchOf(policy, seed), loss)
      const { gradNorm } = await policy.optimStep(unclipped)
      return [value, Math.fround(gradNorm)]
    }
    const policies = [loraPolicy(base, 'test', lora), loraPolicy(shared, 'test', lora)]
    const first = [await learn(policies[0], 1), await learn(policies[1], 1)]
    expect(first[1]).toEqual(first[0])
    const files = ['adapter_model.safetensors', 'optimizer.safetensors', 'optimizer.json']
    await Promise.all(policies.map((policy, i) => policy.save(folders[i])))
    for (const file of files) {
      const [plain, written] = await Promise.all(folders.map((folder) => readFile(join(folder, file))))
      expect(written.equals(plain)).toBe(true)
    }
    const resumed = loraPolicy(shared, 'test', { ...lora, seed: 99 })
    await resumed.load(folders[1])
    const expected = await learn(policies[0], 2)
    expect(await learn(policies[1], 2)).toEqual(expected)
    expect(await learn(resumed, 2)).toEqual(expected)
    for (const policy of [...policies, resumed]) policy.dispose()
    await threads.close()
    await Promise.all(folders.map((folder) => rm(folder, { recursive: true })))
  })

  it('refuses a gradient that is not finite and stays as it was', async () => {
    const policy = loraPolicy(base, 'test', lora)
    const batch = await batchOf(policy, 3)
    const before = await policy.logprobs(batch, { temperature: 0.9 })
    const broken = batch.map((datum) => ({ ...datum, advantages: datum.advantages.map(() => Number.NaN) }))
    await policy.forwardBackward(broken, loss)
    await expect(policy.optimStep(adam)).rejects.toThrow("the gradient's norm is NaN")
    expect(await policy.logprobs(batch, { temperature: 0.9 })).toEqual(before)
    await policy.forwardBackward(batch, loss)
    expect((await policy.optimStep(adam)).gradNorm).toBeGreaterThan(0)
  })

  it('says so when it has diverged', async () => {
    const policy = loraPolicy(base, 'test', lora)
    await policy.forwardBackward(await batchOf(policy, 4), loss)
    await policy.optimStep({ ...adam, learningRate: 1e30 })
    await expect(policy.sample(requests, sampling)).rejects.toThrow(
      'it has diverged; lower the learning rate',
    )
  })

  it('says what is wrong with a request', async () => {
    const policy = frozenPolicy(base)
    const ask = (prompt: number[], options = {}) =>
      policy.sample([{ prompt, seeds: [0] }], { ...sampling, ...options })
    await expect(ask([])).rejects.toThrow('a prompt has no tokens')
    await expect(ask([40])).rejects.toThrow("token 40 is outside the model's vocabulary of 40")
    await expect(ask([1], { maxTokens: 64 })).rejects.toThrow('a prompt of 1 tokens and 64 new ones pass')
    await expect(ask([1], { temperature: 0 })).rejects.toThrow('temperature is 0')
    await expect(ask([1], { topP: 1.5 })).rejects.toThrow('topP is 1.5')
    await expect(policy.optimStep(adam)).rejects.toThrow('frozen base')
  })

  it('tells what it draws as it draws it, and draws the same', async () => {
    const policy = frozenPolicy(base)
    const told = requests.map(({ seeds }) => seeds.map((): number[] => []))
    const drawn = await policy.sample(requests, {
      ...sampling,
      onDrawn: (some) => {
        for (const { request, sample, token } of some) told[request][sample].push(token)
      },
    })
    expect(told).toEqual(drawn.map((group) => group.map(({ tokens }) => tokens)))
    expect(drawn).toEqual(await policy.sample(requests, sampling))
  })

  it('stops when asked', async () => {
    const policy = frozenPolicy(base)
    const stop = new AbortController()
    const ask = policy.sample(requests, {
      ...sampling,
      stop: [],
      maxTokens: 40,
      signal: stop.signal,
      onTokens: () => stop.abort(new Error('enough')),
    })
    await expect(ask).rejects.toThrow('enough')
    await expect(policy.sample(requests, { ...sampling, signal: stop.signal })).rejects.toThrow('enough')
  })
})

describe('training of every weight', () => {
  it('learns a sequence by heart and samples it', async () => {
    const trainer = createTrainer(config, initialWeights(config, 2), { threads: 1 })
    const prompt = [9]
    const completion = [3, 1, 4, 1, 5, 9, 2, 6, 0]
    const batch = [{ prompt, completion, weights: completion.map(() => 1 / completion.length) }]
    let last = Number.POSITIVE_INFINITY
    for (let i = 0; i < 60; i++) {
      last = (await trainer.forwardBackwardSupervised(batch)).loss
      await trainer.optimStep(adam)
    }
    expect(last).toBeLessThan(0.05)
    const [[sampled]] = await trainer.sample([{ prompt, seeds: [1] }], { ...sampling, topP: 0.5 })
    expect(sampled.tokens).toEqual(completion)
    expect(sampled.finish).toBe('stop')
    await trainer.close()
  })
})
