/** Checks of an engine through its contract alone, so that they hold for every engine and provider. */

import { join } from '../platform/path.ts'
import { random } from '../random.ts'
import { openSafetensors } from './checkpoint/safetensors.ts'
import type { AdamOptions, Engine, Policy, PolicyDatum, PolicyLoss } from './contract.ts'

/** How far numbers may be off, by what matrix products are computed in. */
export const tolerances: Record<'float32' | 'float16', { logprob: number; slope: number; gradient: number }> =
  {
    float32: { logprob: 1e-4, slope: 1e-3, gradient: 1e-4 },
    float16: { logprob: 2e-2, slope: 1e-1, gradient: 1e-2 },
  }

const temperature = 0.9
const loss: PolicyLoss = { kind: 'policy_gradient', clipLow: 0.2, clipHigh: 0.28, temperature }

/** With these, AdamW's step is -rate x gradient: no momentum, and an epsilon beside which gradients vanish. */
const EPSILON = 1e8
/** Length of the steps of the finite differences. */
const STEP = 3e-3
const descent = (rate: number): AdamOptions => ({
  learningRate: rate * EPSILON,
  beta1: 0,
  beta2: 0,
  epsilon: EPSILON,
  weightDecay: 0,
  maxGradNorm: Number.POSITIVE_INFINITY,
})

/** A small batch that a policy sampled itself, with advantages of both signs. */
async function sampleBatch(engine: Engine, policy: Policy): Promise<PolicyDatum[]> {
  // The longest is longer than the tiles in which a GPU computes attention.
  const prompts = ['one', 'two and more', 'and so on '.repeat(20)].map((text) =>
    engine.tokenizer.encode(text),
  )
  const completions = await policy.sample(
    prompts.map((prompt, p) => ({ prompt, seeds: [2 * p, 2 * p + 1] })),
    { maxTokens: 12, temperature, topP: 1, stop: engine.tokenizer.stop },
  )
  const stream = random('engine check')
  return completions.flatMap((samples, p) =>
    samples.map(({ tokens, logprobs }) => ({
      prompt: prompts[p],
      completion: tokens,
      logprobs,
      advantages: tokens.map(() => stream.normal() / 20),
    })),
  )
}

/** A policy whose adapter is away from its start, where half of all gradients are 0. */
async function movedPolicy(engine: Engine): Promise<Policy> {
  const policy = await engine.createPolicy({ lora: { rank: 4, alpha: 8, seed: 1 } })
  for (let step = 0; step < 3; step++) {
    await policy.forwardBackward(await sampleBatch(engine, policy), loss)
    await policy.optimStep({ ...descent(0), learningRate: 0.02, epsilon: 1e-8 })
  }
  return policy
}

/** Largest |log-probability given when sampling - the training graph's|. */
export async function logprobError(engine: Engine): Promise<number> {
  const policy = await movedPolicy(engine)
  try {
    const batch = await sampleBatch(engine, policy)
    const scored = await policy.logprobs(batch, { temperature })
    return Math.max(...batch.flatMap(({ logprobs }, i) => logprobs.map((l, t) => Math.abs(l - scored[i][t]))))
  } finally {
    policy.dispose()
  }
}

/**
 * Relative error of the gradient g along itself: the loss's slope in the direction of g, by central differences,
 * must be |g|^2. The loss is moved by real optimiser steps from one saved state, once along the gradient of the
 * batch and once along that of its negative.
 */
export async function gradientError(engine: Engine, folder: string): Promise<number> {
  const policy = await movedPolicy(engine)
  try {
    const batch = await sampleBatch(engine, policy)
    const negative = batch.map((datum) => ({ ...datum, advantages: datum.advantages.map((a) => -a) }))
    await policy.save(folder)
    const evaluate = async () => {
      const { loss: value } = await policy.forwardBackward(batch, loss)
      const { gradNorm } = await policy.optimStep(descent(0))
      return { value, gradNorm }
    }
    const lossAfter = async (data: PolicyDatum[], rate: number) => {
      await policy.load(folder)
      await policy.forwardBackward(data, loss)
      await policy.optimStep(descent(rate))
      return (await evaluate()).value
    }
    const { gradNorm } = await evaluate()
    // A step of this length changes a float32 loss visibly, and the gradient along it little.
    const rate = STEP / gradNorm
    const slope = ((await lossAfter(negative, rate)) - (await lossAfter(batch, rate))) / (2 * rate)
    return Math.abs(slope - gradNorm ** 2) / gradNorm ** 2
  } finally {
    policy.dispose()
  }
}

/** Largest difference in log-probability between a policy and one loaded from what it saved. */
export async function loadError(engine: Engine, folder: string): Promise<number> {
  const policy = await movedPolicy(engine)
  const copy = await engine.createPolicy({ lora: { rank: 4, alpha: 8, seed: 2 } })
  try {
    await policy.save(folder)
    await copy.load(folder)
    const batch = await sampleBatch(engine, policy)
    const [a, b] = [
      await policy.logprobs(batch, { temperature }),
      await copy.logprobs(batch, { temperature }),
    ]
    return Math.max(...a.flatMap((row, i) => [...row].map((value, t) => Math.abs(value - b[i][t]))))
  } finally {
    policy.dispose()
    copy.dispose()
  }
}

/** One policy and one batch on two engines of the same model: the policy is made on the first. */
async function onBoth<T>(
  first: Engine,
  second: Engine,
  folder: string,
  compare: (policies: readonly [Policy, Policy], batch: PolicyDatum[]) => Promise<T>,
): Promise<T> {
  const policy = await movedPolicy(first)
  const copy = await second.createPolicy({ lora: { rank: 4, alpha: 8, seed: 2 } })
  try {
    await policy.save(folder)
    await copy.load(folder)
    return await compare([policy, copy], await sampleBatch(second, copy))
  } finally {
    policy.dispose()
    copy.dispose()
  }
}

/** Largest difference between two engines in the log-probability of a token that the second one sampled. */
export function scoreDifference(first: Engine, second: Engine, folder: string): Promise<number> {
  return onBoth(first, second, folder, async ([policy, copy], batch) => {
    const [a, b] = [
      await policy.logprobs(batch, { temperature }),
      await copy.logprobs(batch, { temperature }),
    ]
    return Math.max(
      ...batch.flatMap(({ logprobs }, i) =>
        logprobs.map((sampled, t) => Math.max(Math.abs(a[i][t] - b[i][t]), Math.abs(a[i][t] - sampled))),
      ),
    )
  })
}

/** |difference of two engines' gradients of one batch| / |gradient of the first|. */
export function gradientDifference(first: Engine, second: Engine, folder: string): Promise<number> {
  return onBoth(first, second, folder, async (policies, batch) => {
    const changes: Float64Array[] = []
    for (const policy of policies) {
      const before = await adapterValues(policy, folder)
      await policy.forwardBackward(batch, loss)
      await policy.optimStep(descent(1))
      const after = await adapterValues(policy, folder)
      changes.push(after.map((value, i) => value - before[i]))
    }
    const [a, b] = changes
    const norm = (values: Float64Array) => Math.sqrt(values.reduce((sum, value) => sum + value * value, 0))
    return norm(a.map((value, i) => value - b[i])) / norm(a)
  })
}

/** Every weight of a policy's adapter, in a fixed order. */
async function adapterValues(policy: Policy, folder: string): Promise<Float64Array> {
  await policy.save(folder)
  const reader = await openSafetensors(join(folder, 'adapter_model.safetensors'))
  try {
    const values: number[] = []
    for (const name of [...reader.names].sort()) values.push(...(await reader.read(name)))
    return Float64Array.from(values)
  } finally {
    await reader.close()
  }
}
