/**
 * Sampling with a key-value cache. Each prompt is computed once; its cache is copied to every sample of it. Rows of a
 * batch may have different lengths, and a finished row leaves the batch at once.
 */
import { type Random, random } from '../../random.ts'
import type { ModelConfig } from '../checkpoint/config.ts'
import type { Completion, SampleOptions, SampleRequest } from '../contract.ts'
import { inLanes } from './lanes.ts'
import { cacheKey, cacheValue } from './programs.ts'
import { draw } from './sample.ts'
import {
  floatData,
  floats,
  int32s,
  int64s,
  type Program,
  scalar,
  type Value,
  type Values,
} from './session.ts'

export interface GenerateContext {
  config: ModelConfig
  program: Program
  /** Weights, adapter and rotary tables by name. */
  values: readonly Values[]
  /** Batches computed at the same time. */
  lanes: number
  /** Samples decoded together in one lane. */
  decodeBatch: number
  /** Prompt tokens, padding included, computed together in one lane. */
  prefillTokens: number
}

/** One sample on its way. */
interface Slot {
  request: number
  sample: number
  /** Tokens in the cache. */
  length: number
  /** The token to feed next. */
  token: number
  random: Random
  completion: Completion
}

export async function generate(
  context: GenerateContext,
  requests: readonly SampleRequest[],
  options: SampleOptions,
): Promise<Completion[][]> {
  const results: Completion[][] = requests.map(() => [])
  await inLanes(share(requests, context), context.lanes, async (chunk) => {
    for (const slot of await generateChunk(context, requests, chunk, options)) {
      results[slot.request][slot.sample] = slot.completion
    }
  })
  return results
}

/**
 * Cuts the requests into chunks that decode together: like lengths side by side, about equal work for each lane, at
 * most `decodeBatch` samples each. Depends on the requests alone, so the same call computes the same batches.
 */
function share(requests: readonly SampleRequest[], { lanes, decodeBatch }: GenerateContext): number[][] {
  const order = requests.map((_, index) => index).filter((index) => requests[index].n > 0)
  order.sort((a, b) => requests[b].prompt.length - requests[a].prompt.length || a - b)
  const samples = order.reduce((sum, index) => sum + requests[index].n, 0)
  const rounds = Math.ceil(samples / (lanes * decodeBatch))
  const size = Math.ceil(samples / (lanes * rounds))
  const chunks: number[][] = []
  let room = 0
  for (const index of order) {
    if (room <= 0) {
      chunks.push([])
      room = size
    }
    chunks[chunks.length - 1].push(index)
    room -= requests[index].n
  }
  return chunks
}

async function generateChunk(
  context: GenerateContext,
  requests: readonly SampleRequest[],
  chunk: readonly number[],
  options: SampleOptions,
): Promise<Slot[]> {
  const { config, program, values } = context
  const slots = chunk.flatMap((request) =>
    Array.from(
      { length: requests[request].n },
      (_, sample): Slot => ({
        request,
        sample,
        length: requests[request].prompt.length,
        token: 0,
        random: random('sample', requests[request].seed, sample),
        completion: { tokens: [], samplingLogprobs: [], logprobs: [], finish: 'length' },
      }),
    ),
  )
  const temperature = scalar(options.temperature)
  const window = Math.max(...slots.map((slot) => slot.length)) + options.maxTokens
  const caches = allocateCaches(config, slots.length, window)

  /** Draws each slot's next token from its row of log-probabilities; true where the slot is finished. */
  const advance = (slot: Slot, logprobs: Float32Array, row: number): boolean => {
    const vocabulary = config.vocabSize
    const line = logprobs.subarray(row * vocabulary, (row + 1) * vocabulary)
    const { token, samplingLogprob } = draw(line, options.topP, slot.random.next())
    const { completion } = slot
    completion.tokens.push(token)
    completion.samplingLogprobs.push(samplingLogprob)
    completion.logprobs.push(line[token])
    slot.token = token
    if (options.stop.includes(token)) completion.finish = 'stop'
    return completion.finish === 'stop' || completion.tokens.length === options.maxTokens
  }

  // Prompts first: each is computed once, its keys and values copied to the rows of all its samples.
  const live: Slot[] = []
  let next = 0
  for (const batch of prefillBatches(requests, chunk, context.prefillTokens)) {
    options.signal?.throwIfAborted()
    const {
      logprobs,
      caches: prompts,
      window: promptWindow,
    } = await prefill(context, batch, requests, temperature)
    batch.forEach((request, row) => {
      for (let sample = 0; sample < requests[request].n; sample++, next++) {
        const slot = slots[next]
        if (advance(slot, logprobs, row)) continue
        for (let c = 0; c < caches.length; c++) {
          copyRow(config, prompts[c], row, promptWindow, caches[c], live.length, window, slot.length)
        }
        live.push(slot)
      }
    })
    options.onTokens?.(batch.reduce((sum, request) => sum + requests[request].n, 0))
  }

  while (live.length > 0) {
    options.signal?.throwIfAborted()
    const batch = live.length
    // Rows beyond the live ones are left out by handing over the front of each buffer.
    const bound = bindCaches(config, caches, batch, window)
    const feeds: Record<string, Value> = {
      ...bound.feeds,
      tokens: int64s(
        live.map((slot) => slot.token),
        [batch, 1],
      ),
      rows: int64s(
        live.map((_, row) => row),
        [batch],
      ),
      last: int32s(
        Int32Array.from(live, (slot) => slot.length),
        [batch],
      ),
      longest: int32s(Int32Array.of(Math.max(...live.map((slot) => slot.length)) + 1), [1]),
      temperature,
    }
    const outputs = await program.run([feeds, ...values], bound.outputs)
    const logprobs = floatData(outputs.logprobs)
    options.onTokens?.(batch)
    const finished: number[] = []
    live.forEach((slot, row) => {
      slot.length++
      if (advance(slot, logprobs, row)) finished.push(row)
    })
    // From the back, so that the row moved into a hole is never itself finished.
    for (const row of finished.reverse()) {
      const lastRow = live.length - 1
      if (row !== lastRow) {
        for (const cache of caches)
          copyRow(config, cache, lastRow, window, cache, row, window, live[lastRow].length)
        live[row] = live[lastRow]
      }
      live.pop()
    }
  }
  return slots
}

/** Consecutive requests whose padded prompts fit the token budget; the longest is first, so it sets the padding. */
function prefillBatches(
  requests: readonly SampleRequest[],
  chunk: readonly number[],
  budget: number,
): number[][] {
  const batches: number[][] = []
  for (let start = 0; start < chunk.length; ) {
    const fit = Math.max(1, Math.floor(budget / requests[chunk[start]].prompt.length))
    batches.push(chunk.slice(start, start + fit))
    start += fit
  }
  return batches
}

async function prefill(
  { config, program, values }: GenerateContext,
  batch: readonly number[],
  requests: readonly SampleRequest[],
  temperature: Value,
): Promise<{ logprobs: Float32Array; caches: Float32Array[]; window: number }> {
  const lengths = batch.map((request) => requests[request].prompt.length)
  const window = Math.max(...lengths)
  const tokens = new Int32Array(batch.length * window)
  batch.forEach((request, row) => {
    tokens.set(requests[request].prompt, row * window)
  })
  const caches = allocateCaches(config, batch.length, window)
  const bound = bindCaches(config, caches, batch.length, window)
  const outputs = await program.run(
    [
      {
        ...bound.feeds,
        tokens: int64s(tokens, [batch.length, window]),
        rows: int64s(
          lengths.map((length, row) => row * window + length - 1),
          [batch.length],
        ),
        last: int32s(
          Int32Array.from(lengths, (length) => length - 1),
          [batch.length],
        ),
        longest: int32s(Int32Array.of(window), [1]),
        temperature,
      },
      ...values,
    ],
    bound.outputs,
  )
  return { logprobs: floatData(outputs.logprobs), caches, window }
}

/** One [batch, kvHeads, window, headDim] buffer for the keys and one for the values of each layer. */
function allocateCaches(config: ModelConfig, batch: number, window: number): Float32Array[] {
  const size = batch * config.kvHeads * window * config.headDim
  return Array.from({ length: 2 * config.layers }, () => new Float32Array(size))
}

/** The same buffers as inputs and as outputs: the attention writes new keys and values in place. */
function bindCaches(config: ModelConfig, caches: readonly Float32Array[], batch: number, window: number) {
  const dims = [batch, config.kvHeads, window, config.headDim]
  const size = dims.reduce((product, dim) => product * dim, 1)
  const feeds: Record<string, Value> = {}
  const outputs: Record<string, Value> = {}
  caches.forEach((cache, c) => {
    const name = c % 2 === 0 ? cacheKey(c >> 1) : cacheValue(c >> 1)
    const value = floats(cache.length === size ? cache : cache.subarray(0, size), dims)
    feeds[name] = value
    outputs[`new ${name}`] = value
  })
  return { feeds, outputs }
}

/** Copies the first `length` positions of one row of a cache to a row of another. */
function copyRow(
  { kvHeads, headDim }: ModelConfig,
  from: Float32Array,
  fromRow: number,
  fromWindow: number,
  into: Float32Array,
  intoRow: number,
  intoWindow: number,
  length: number,
): void {
  for (let head = 0; head < kvHeads; head++) {
    const start = (fromRow * kvHeads + head) * fromWindow * headDim
    into.set(
      from.subarray(start, start + length * headDim),
      (intoRow * kvHeads + head) * intoWindow * headDim,
    )
  }
}
