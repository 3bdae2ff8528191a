/** Our side of the comparisons of speed, in a process of its own so that its peak of memory is its own. See run.ts. */

import { openOnnxEngine } from '../../../src/engine/onnx/index.ts'
import { policyLoss } from '../../../src/engine/testing/update.ts'
import { seedsOf } from '../../../src/random.ts'
import { type SamplingRequest, type SpeedRequest, seconds } from './speed.ts'

const chunks: Buffer[] = []
for await (const chunk of process.stdin) chunks.push(chunk as Buffer)
const request = JSON.parse(Buffer.concat(chunks).toString()) as SamplingRequest | SpeedRequest

/** Highest memory use of the process so far, in MiB. */
const peak = () => process.resourceUsage().maxRSS / 1024

const started = performance.now()
const engine = await openOnnxEngine({ model: request.folder, threads: request.threads })
const frozen = await engine.createPolicy()
const asked = request.prompts.map((prompt, i) => ({ prompt, seeds: seedsOf(request.copies, i) }))
const sampling = { temperature: 0.9, topP: request.topP, stop: [] }
// The lanes load in the background: the first token says that they have.
await frozen.sample(asked.slice(0, 1), { ...sampling, maxTokens: 1 })
const load = (performance.now() - started) / 1000
const peakLoadedMiB = peak()

const generation = await seconds(request.rounds, () =>
  frozen.sample(asked, { ...sampling, maxTokens: request.newTokens }),
)
const peakGenerationMiB = peak()
const training = 'trainPrompts' in request ? await train(request) : []
await engine.close()
process.stdout.write(
  `${JSON.stringify({ load, generation, training, peakLoadedMiB, peakGenerationMiB, peakMiB: peak() })}\n`,
)

async function train(request: SpeedRequest): Promise<number[]> {
  const policy = await engine.createPolicy({ lora: { rank: 32, alpha: 64, seed: 0 } })
  const data = request.trainPrompts.map((prompt, i) => {
    const completion = request.trainCompletions[i]
    return {
      prompt,
      completion,
      logprobs: completion.map(() => -1),
      advantages: completion.map(() => (i % 2 === 0 ? 1e-3 : -1e-3)),
    }
  })
  const loss = policyLoss(0.9)
  return seconds(request.rounds, () => policy.forwardBackward(data, loss))
}
