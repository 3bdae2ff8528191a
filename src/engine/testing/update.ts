/** One update as experiments take it by default, for tests, live checks and benchmarks of engines. */
import type { AdamOptions, PolicyLoss } from '../contract.ts'

export const policyLoss = (temperature = 1): PolicyLoss => ({
  kind: 'policy_gradient',
  clipLow: 0.2,
  clipHigh: 0.28,
  temperature,
})

export const adamStep = (over: Partial<AdamOptions> = {}): AdamOptions => ({
  learningRate: 1e-3,
  beta1: 0.9,
  beta2: 0.999,
  epsilon: 1e-8,
  weightDecay: 0,
  maxGradNorm: 1,
  ...over,
})
