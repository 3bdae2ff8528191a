/**
 * Sampling with a key-value cache, in one lane. Each prompt is computed once; its cache is copied to every sample of
 * it. Rows of a batch may have different lengths, and a finished row leaves the batch at once.
 */
import { UserError } from '../../errors.ts'
import { type Random, random } from '../../random.ts'
import type { ModelConfig } from '../checkpoint/config.ts'
import type { Completion, Drawn, SampleOptions, SampleRequest } from '../contract.ts'
import { MASKED } from './model.ts'
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
  prompt: Program
  step: Program
  /** Weights, adapter and rotary tables by name. */
  values: readonly Values[]
  /** Prompt tokens, padding included, computed together. */
  prefillTokens: number
  /** Called with the number of new tokens, and where `tells` with the tokens. */
  onTokens(newTokens: number, drawn: readonly Drawn[]): void
  tells: boolean
  /** Throws when the caller no longer wants the result; what it gives back is waited for. */
  check(): void | Promise<void>
}

export type Sampling = Pick<SampleOptions, 'maxTokens' | 'temperature' | 'topP' | 'stop'>

/** One sample on its way. */
interface Slot {
  /** Which completion it is. */
  request: number
  sample: number
  /** Tokens in the cache. */
  length: number
  /** The token to feed next. */
  token: number
  random: Random
  completion: Completion
}

/** All samples of the given requests, decoded together. */
export async function generate(
  context: GenerateContext,
  requests: readonly SampleRequest[],
  sampling: Sampling,
): Promise<Completion[][]> {
  const { config } = context
  const groups = requests.map(({ prompt, seeds }, request) =>
    seeds.map(
      (seed, sample): Slot => ({
        request,
        sample,
        length: prompt.length,
        token: 0,
        random: random('sample', seed),
        completion: { tokens: [], samplingLogprobs: [], logprobs: [], finish: 'length' },
      }),
    ),
  )
  const temperature = scalar(sampling.temperature)
  const samples = groups.reduce((sum, group) => sum + group.length, 0)
  const longest = Math.max(...requests.map(({ prompt }) => prompt.length))
  const cache = openCache(config, samples, longest, longest + sampling.maxTokens)

  let drawn: Drawn[] = []
  const tell = (newTokens: number) => {
    context.onTokens(newTokens, drawn)
    drawn = []
  }
  /** Draws a slot's next token from its row of log-probabilities; true where the slot is finished. */
  const advance = (slot: Slot, logprobs: Float32Array, row: number): boolean => {
    const line = logprobs.subarray(row * config.vocabSize, (row + 1) * config.vocabSize)
    // One not-a-number in the hidden state makes the whole row so: the first tells.
    checkDrawn(line[0])
    const { token, samplingLogprob } = draw(line, sampling.topP, slot.random.next())
    const { completion } = slot
    completion.tokens.push(token)
    completion.samplingLogprobs.push(samplingLogprob)
    completion.logprobs.push(line[token])
    slot.token = token
    if (context.tells) drawn.push({ request: slot.request, sample: slot.sample, token })
    if (sampling.stop.includes(token)) completion.finish = 'stop'
    return completion.finish === 'stop' || completion.tokens.length === sampling.maxTokens
  }

  const live: Slot[] = []
  for (const batch of promptBatches(requests, context.prefillTokens)) {
    await context.check()
    const { logprobs, cache: prompts } = await runPrompts(
      context,
      batch.map((i) => requests[i].prompt),
      temperature,
    )
    batch.forEach((request, row) => {
      for (const slot of groups[request]) {
        if (advance(slot, logprobs, row)) continue
        copyRow(config, prompts, row, cache, live.length, slot.length)
        live.push(slot)
      }
    })
    tell(batch.reduce((sum, request) => sum + groups[request].length, 0))
  }

  let feeds: Record<string, Value> | null = null
  while (live.length > 0) {
    await context.check()
    const batch = live.length
    if (live.some((slot) => slot.length === cache.window)) {
      growWindow(config, cache, live)
      feeds = null
    }
    feeds ??= cacheFeeds(config, cache, batch)
    const outputs = await context.step.run([
      {
        ...feeds,
        tokens: int32s(
          live.map((slot) => slot.token),
          [batch, 1],
        ),
        positions: int64s(
          live.map((slot) => slot.length),
          [batch, 1],
        ),
        mask: stepMask(live, cache.window),
        temperature,
      },
      ...context.values,
    ])
    appendNew(config, cache, live, outputs)
    const logprobs = floatData(outputs.logprobs)
    const finished: number[] = []
    live.forEach((slot, row) => {
      slot.length++
      if (advance(slot, logprobs, row)) finished.push(row)
    })
    tell(batch)
    if (finished.length > 0) feeds = null
    // From the back, so that the row moved into a hole is never itself finished.
    for (const row of finished.reverse()) {
      const last = live.length - 1
      if (row !== last) {
        copyRow(config, cache, last, cache, row, live[last].length)
        live[row] = live[last]
      }
      live.pop()
    }
  }
  return groups.map((group) => group.map(({ completion }) => completion))
}

export function checkDrawn(logprob: number): void {
  if (Number.isNaN(logprob)) {
    throw new UserError(
      "the model's log-probabilities are not numbers: it has diverged; lower the learning rate",
    )
  }
}

/** Indices of requests, longest prompt first, in batches whose padded prompts fit the token budget. */
function promptBatches(requests: readonly SampleRequest[], budget: number): number[][] {
  const order = requests.map((_, index) => index).filter((index) => requests[index].seeds.length > 0)
  order.sort((a, b) => requests[b].prompt.length - requests[a].prompt.length || a - b)
  const batches: number[][] = []
  for (let start = 0; start < order.length; ) {
    const fit = Math.max(1, Math.floor(budget / requests[order[start]].prompt.length))
    batches.push(order.slice(start, start + fit))
    start += fit
  }
  return batches
}

/**
 * Keys and values of all layers, each [rows, kvHeads, window, headDim]: layer 0's keys, its values, layer 1's ... The
 * arrays have room for the longest window that there may be; memory that no window has reached costs nothing.
 */
interface KeyValueCache {
  window: number
  arrays: Float32Array[]
}

/** Positions that a window grows by: as long as the longest live row needs, and rarely laid out anew. */
const WINDOW_GROWTH = 32

function openCache(config: ModelConfig, rows: number, longest: number, limit: number): KeyValueCache {
  const most = Math.ceil((limit - longest) / WINDOW_GROWTH) * WINDOW_GROWTH + longest
  const size = rows * config.kvHeads * most * config.headDim
  const arrays = Array.from({ length: 2 * config.layers }, () => new Float32Array(size))
  return { window: longest + WINDOW_GROWTH, arrays }
}

/** Lays the rows out for a longer window, in place. */
function growWindow({ kvHeads, headDim }: ModelConfig, cache: KeyValueCache, live: readonly Slot[]): void {
  const window = cache.window + WINDOW_GROWTH
  for (const array of cache.arrays) {
    // From the last row on, so that none is written over before it has moved.
    for (let row = live.length - 1; row >= 0; row--) {
      for (let head = kvHeads - 1; head >= 0; head--) {
        const line = row * kvHeads + head
        const start = line * cache.window * headDim
        array.copyWithin(line * window * headDim, start, start + live[row].length * headDim)
      }
    }
  }
  cache.window = window
}

/** Copies the first `length` positions of one row of a cache to a row of another. */
function copyRow(
  { kvHeads, headDim }: ModelConfig,
  from: KeyValueCache,
  fromRow: number,
  into: KeyValueCache,
  intoRow: number,
  length: number,
): void {
  from.arrays.forEach((array, a) => {
    for (let head = 0; head < kvHeads; head++) {
      const start = (fromRow * kvHeads + head) * from.window * headDim
      into.arrays[a].set(
        array.subarray(start, start + length * headDim),
        (intoRow * kvHeads + head) * into.window * headDim,
      )
    }
  })
}

/** Writes the step's new keys and values behind each row's last. */
function appendNew(
  { kvHeads, headDim }: ModelConfig,
  cache: KeyValueCache,
  live: readonly Slot[],
  outputs: Values,
) {
  cache.arrays.forEach((array, a) => {
    const fresh = floatData(outputs[`new ${cacheName(a)}`])
    live.forEach(({ length }, row) => {
      for (let head = 0; head < kvHeads; head++) {
        const line = row * kvHeads + head
        array.set(
          fresh.subarray(line * headDim, (line + 1) * headDim),
          (line * cache.window + length) * headDim,
        )
      }
    })
  })
}

/** The first `batch` rows of the cache, read in place, and the rows to give log-probabilities for. */
function cacheFeeds(
  { kvHeads, headDim }: ModelConfig,
  cache: KeyValueCache,
  batch: number,
): Record<string, Value> {
  const dims = [batch, kvHeads, cache.window, headDim]
  const size = batch * kvHeads * cache.window * headDim
  const feeds: Record<string, Value> = {
    rows: int32s(
      Int32Array.from({ length: batch }, (_, row) => row),
      [batch],
    ),
  }
  cache.arrays.forEach((array, a) => {
    feeds[cacheName(a)] = floats(array.subarray(0, size), dims)
  })
  return feeds
}

function stepMask(live: readonly Slot[], window: number): Value {
  const columns = window + 1
  const mask = new Float32Array(live.length * columns)
  live.forEach(({ length }, row) => {
    mask.fill(MASKED, row * columns + length, row * columns + window)
  })
  return floats(mask, [live.length, 1, 1, columns])
}

async function runPrompts(
  { config, prompt, values }: GenerateContext,
  prompts: readonly (readonly number[])[],
  temperature: Value,
): Promise<{ logprobs: Float32Array; cache: KeyValueCache }> {
  const batch = prompts.length
  const time = Math.max(...prompts.map(({ length }) => length))
  const tokens = new Int32Array(batch * time)
  const positions = new Int32Array(batch * time)
  const mask = new Float32Array(time * time)
  for (let at = 0; at < time; at++) mask.fill(MASKED, at * time + at + 1, (at + 1) * time)
  prompts.forEach((line, row) => {
    tokens.set(line, row * time)
    for (let at = 0; at < time; at++) positions[row * time + at] = at
  })
  const outputs = await prompt.run([
    {
      tokens: int32s(tokens, [batch, time]),
      positions: int64s(positions, [batch, time]),
      mask: floats(mask, [1, 1, time, time]),
      rows: int32s(
        prompts.map(({ length }, row) => row * time + length - 1),
        [batch],
      ),
      temperature,
    },
    ...values,
  ])
  const arrays = Array.from({ length: 2 * config.layers }, (_, a) => floatData(outputs[cacheName(a)]))
  return { logprobs: floatData(outputs.logprobs), cache: { window: time, arrays } }
}

function cacheName(array: number): string {
  return array % 2 === 0 ? cacheKey(array >> 1) : cacheValue(array >> 1)
}
