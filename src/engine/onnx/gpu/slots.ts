/** The samples of a generation, as a GPU draws them: all together, each from numbers of its own. */
import { type Random, random } from '../../../random.ts'
import type { Completion, SampleRequest } from '../../contract.ts'
import { checkDrawn, type Sampling } from '../generate.ts'
import type { Lane } from '../lane.ts'
import { hostTensor, type NativeTensor } from '../native.ts'
import type { Tensors } from './memory.ts'

/** Steps between looks at what was drawn: each waits for the device. */
export const LOOK = 16

/** Throws when the result is no longer wanted. */
export type Check = Parameters<Lane['generate']>[2]

/** One sample on its way. */
export interface Slot {
  request: SampleRequest
  /** Its number within the request. */
  sample: number
  seed: number
  random: Random
  completion: Completion
}

/** A sample at its start, where a second try begins anew too. */
export function fresh({ request, sample, seed }: Pick<Slot, 'request' | 'sample' | 'seed'>): Slot {
  return {
    request,
    sample,
    seed,
    random: random('sample', seed),
    completion: { tokens: [], samplingLogprobs: [], logprobs: [], finish: 'length' },
  }
}

/** Draws of some steps, [steps, samples] each. */
export interface Drawn {
  drawn: Int32Array
  logprobs: Float32Array
  samplingLogprobs: Float32Array
}

/** Appends drawn tokens [steps, samples] to the completions, each up to its stop token. */
export function take(
  slots: readonly Slot[],
  { stop }: Sampling,
  { drawn, logprobs, samplingLogprobs }: Drawn,
  count: number,
): void {
  slots.forEach(({ completion }, s) => {
    for (let step = 0; step < count && completion.finish !== 'stop'; step++) {
      const at = step * slots.length + s
      checkDrawn(logprobs[at])
      completion.tokens.push(drawn[at])
      completion.logprobs.push(logprobs[at])
      completion.samplingLogprobs.push(samplingLogprobs[at])
      if (stop.includes(drawn[at])) completion.finish = 'stop'
    }
  })
}

/** The uniform numbers that decide so many steps: [rows, samples], of which rows beyond the steps are nothing. */
export function uniformsOf(slots: readonly Slot[], steps: number, rows: number): Float32Array {
  const uniforms = new Float32Array(rows * slots.length)
  for (let at = 0; at < steps; at++) {
    slots.forEach((slot, s) => {
      uniforms[at * slots.length + s] = slot.random.next()
    })
  }
  return uniforms
}

/** The prompts of the samples, each once. */
export function requestsOf(slots: readonly Slot[]): SampleRequest[] {
  return [...new Set(slots.map(({ request }) => request))]
}

export const int32 = (values: readonly number[]): NativeTensor =>
  hostTensor('int32', Int32Array.from(values), [values.length])

/** What prefill reads of prompts that are padded to `time`, over the host's memory. */
export function promptTensors(slots: readonly Slot[], time: number): Tensors {
  const requests = requestsOf(slots)
  const tokens = new Int32Array(requests.length * time)
  requests.forEach(({ prompt }, row) => {
    tokens.set(prompt, row * time)
  })
  const ends = requests.map(({ prompt }) => prompt.length - 1)
  const numberOf = new Map(requests.map((request, i) => [request, i]))
  return {
    tokens: hostTensor('int32', tokens, [requests.length, time]),
    ends: int32(ends),
    endRows: int32(ends.map((end, row) => row * time + end)),
    sampleOf: int32(slots.map(({ request }) => numberOf.get(request) as number)),
  }
}

/** What prefill reads besides where prompts are packed rows of one segment. */
export function wholePrompts(prompts: number, time: number): Tensors {
  const size = prompts * time
  return {
    positions: hostTensor(
      'int64',
      BigInt64Array.from({ length: size }, (_, i) => BigInt(i % time)),
      [prompts, time],
    ),
    segments: hostTensor('int32', new Int32Array(size), [prompts, time]),
  }
}

/** Whether each sample has drawn a stop token within so many steps. */
export function allStopped(
  slots: readonly Slot[],
  { stop }: Sampling,
  drawn: Int32Array,
  count: number,
): boolean {
  return slots.every((_, sample) => {
    for (let at = 0; at < count; at++) if (stop.includes(drawn[at * slots.length + sample])) return true
    return false
  })
}
