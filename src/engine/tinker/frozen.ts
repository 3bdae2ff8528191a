/** The frozen base on a Tinker API server: it samples and scores, and learns nothing. Talks to one server only. */
import { UserError } from '../../errors.ts'
import type { Policy } from '../contract.ts'
import { isUncertain, RECOVERIES } from './client.ts'
import type { Fleet } from './fleet.ts'
import { promptLogprobs, refuseTemperature } from './sampling.ts'
import { modelInput, sampleSchema } from './wire.ts'

export function frozenPolicy(fleet: Fleet): Policy {
  const server = fleet.choose()
  const { client } = server
  let sampler: Promise<string> | null = null
  let disposed = false
  /** Works with a sampler of the base, another one where the server forgot it. */
  async function withSampler<T>(work: (sampler: string) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      sampler ??= server.sampler()
      const used = sampler
      try {
        return await work(await used)
      } catch (error) {
        if (sampler === used) sampler = null
        if (!isUncertain(error) || tries > RECOVERIES) throw error
      }
    }
  }
  const refuse = async (): Promise<never> => {
    throw new UserError('this policy is the frozen base: create it with `lora` to train it')
  }
  return {
    sample: (requests, options) => server.watched(() => server.sample(requests, options, withSampler)),
    logprobs: (sequences, { temperature }) =>
      server.watched(async () => {
        refuseTemperature(temperature, client.url)
        return Promise.all(
          sequences.map((sequence) =>
            client.inTurn(() =>
              withSampler(async (sampling_session_id) => {
                const body = {
                  sampling_session_id,
                  seq_id: server.nextSample(),
                  num_samples: 1,
                  prompt: modelInput([...sequence.prompt, ...sequence.completion]),
                  sampling_params: { max_tokens: 1, seed: 0, temperature: 1, top_p: 1, top_k: -1, stop: [] },
                  prompt_logprobs: true,
                  type: 'sample',
                }
                return promptLogprobs(sequence, await client.work('asample', body, sampleSchema), client.url)
              }),
            ),
          ),
        )
      }),
    forwardBackward: refuse,
    forwardBackwardSupervised: refuse,
    optimStep: refuse,
    save: refuse,
    load: refuse,
    dispose() {
      if (!disposed) fleet.leave(server)
      disposed = true
    },
  }
}
