/** One step of training as an experiment takes it, in small: by how long it takes, devices are compared. */
import { random, seedsOf } from '../../random.ts'
import type { Engine } from '../contract.ts'

/** Prompts of so many tokens, so many samples of each, so many new tokens: about half a step of the default experiment. */
const STEP = { prompts: 8, prompt: 64, samples: 4, tokens: 24 }
/** For models of more parameters than this a step is one prompt's. */
const LARGE = 20e6

/** Seconds of sampling, gradients and an update: of the second such step, since the first one compiles. */
export async function stepSeconds(engine: Engine): Promise<number> {
  const { contextLength, info, tokenizer } = engine
  const prompts = info.parameters > LARGE ? 1 : STEP.prompts
  const tokens = Math.min(STEP.tokens, contextLength >> 1)
  const stream = random('first step')
  const words = tokenizer.encode(
    'Four copies of a model write notes and read them. What is 12 plus 7 times 3?',
  )
  const length = Math.min(STEP.prompt, contextLength - tokens)
  const requests = Array.from({ length: prompts }, (_, p) => ({
    prompt: Array.from({ length }, () => stream.pick(words)),
    seeds: seedsOf(STEP.samples, 'first step', p),
  }))
  const policy = await engine.createPolicy({ lora: { rank: 16, alpha: 32, seed: 1 } })
  try {
    let seconds = 0
    for (let turn = 0; turn < 2; turn++) {
      const start = performance.now()
      const groups = await policy.sample(requests, { maxTokens: tokens, temperature: 1, topP: 1, stop: [] })
      const batch = groups.flatMap((group, r) =>
        group.map(({ tokens: completion, logprobs }, sample) => ({
          prompt: requests[r].prompt,
          completion,
          logprobs,
          advantages: completion.map(() => (sample % 2 === 0 ? 1 : -1) / STEP.samples),
        })),
      )
      const loss = { kind: 'policy_gradient', clipLow: 0.2, clipHigh: 0.28, temperature: 1 } as const
      await policy.forwardBackward(batch, loss)
      await policy.optimStep({
        learningRate: 1e-4,
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-8,
        weightDecay: 0,
        maxGradNorm: 1,
      })
      seconds = (performance.now() - start) / 1000
    }
    return seconds
  } finally {
    policy.dispose()
  }
}
