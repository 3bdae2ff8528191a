/**
 * Sampling with a key-value cache, in one lane. Each prompt is computed once, and its keys and values are held and read
 * once for all samples of it; what is sampled has a cache beside. Rows of a batch may have different lengths, and a
 * finished row leaves the batch at once.
 */
import { UserError } from '../../errors.ts'
import { type Random, random } from '../../random.ts'
import type { ModelConfig } from '../checkpoint/config.ts'
import type { Completion, Drawn, SampleOptions, SampleRequest } from '../contract.ts'
import { MASKED } from './model.ts'
import { cacheKey, cacheValue, promptKey, promptValue } from './programs.ts'
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
import type { Shelf } from './shelf.ts'

export interface GenerateContext {
  config: ModelConfig
  prompt: Program
  /** The program of a step of so many rows. */
  step: (rows: number) => Program
  /** Weights, adapter and rotary tables by name. */
  values: readonly Values[]
  /** Prompt tokens, padding included, computed together. */
  prefillTokens: number
  /** Caches and outputs are taken from it. */
  shelf: Shelf
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
  /** Its row of the batch. */
  row: number
  prompt: Prompt
  /** Tokens in its own cache: those sampled, but for the last. */
  length: number
  /** The token to feed next. */
  token: number
  random: Random
  completion: Completion
}

/** A prompt with samples on their way. */
interface Prompt {
  length: number
  /** Its row of the prompts' cache. */
  row: number
  slots: Slot[]
}

/** All samples of the given requests, decoded together. */
export async function generate(
  context: GenerateContext,
  requests: readonly SampleRequest[],
  sampling: Sampling,
): Promise<Completion[][]> {
  const { config, shelf } = context
  shelf.clear()
  const groups = requests.map(({ prompt, seeds }, request) => {
    const shared: Prompt = { length: prompt.length, row: 0, slots: [] }
    return seeds.map(
      (seed, sample): Slot => ({
        request,
        sample,
        row: 0,
        prompt: shared,
        length: 0,
        token: 0,
        random: random('sample', seed),
        completion: { tokens: [], samplingLogprobs: [], logprobs: [], finish: 'length' },
      }),
    )
  })
  const temperature = scalar(sampling.temperature)
  const asked = requests.filter(({ seeds }) => seeds.length > 0)
  const longest = Math.max(...asked.map(({ prompt }) => prompt.length))
  const prefix = openCache(config, shelf, asked.length, longest, longest)
  const samples = groups.reduce((sum, group) => sum + group.length, 0)
  const own = openCache(config, shelf, samples, WINDOW_GROWTH, sampling.maxTokens)
  const batches = promptBatches(requests, context.prefillTokens)
  // The longest prompt of a batch comes first.
  const padded = batches.map((batch) => batch.length * requests[batch[0]].prompt.length)
  const room = openRoom(config, shelf, samples, Math.max(samples, ...padded))

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
  const prompts: Prompt[] = []
  for (const batch of batches) {
    await context.check()
    const { logprobs, cache } = await runPrompts(
      context,
      batch.map((i) => requests[i].prompt),
      temperature,
      room,
    )
    batch.forEach((request, row) => {
      const going = groups[request].filter((slot) => !advance(slot, logprobs, row))
      if (going.length === 0) return
      const { prompt } = going[0]
      prompt.row = prompts.length
      prompt.slots = going
      copyRow(config, cache, row, prefix, prompt.row, prompt.length)
      prompts.push(prompt)
      for (const slot of going) slot.row = live.push(slot) - 1
    })
    tell(batch.reduce((sum, request) => sum + groups[request].length, 0))
  }

  let feeds: StepFeeds | null = null
  while (live.length > 0) {
    await context.check()
    const batch = live.length
    if (live.some((slot) => slot.length === own.window)) {
      growWindow(config, own, live)
      feeds = null
    }
    feeds ??= stepFeeds(config, prefix, prompts, own, room, live)
    const fed = {
      tokens: int32s(
        live.map((slot) => slot.token),
        [batch, 1],
      ),
      positions: int64s(
        live.map(({ prompt, length }) => prompt.length + length),
        [batch, 1],
      ),
      temperature,
    }
    const outputs = await context.step(batch).run([fed, feeds.values, ...context.values], feeds.into)
    appendNew(config, own, live, outputs)
    feeds.show()
    const logprobs = floatData(outputs.logprobs)
    const finished = live.filter((slot) => {
      slot.length++
      return advance(slot, logprobs, slot.row)
    })
    tell(batch)
    if (finished.length > 0) feeds = null
    // From the back, so that the row moved into a hole is never itself finished.
    for (const slot of finished.reverse()) {
      const last = live.pop() as Slot
      if (last !== slot) {
        copyRow(config, own, last.row, own, slot.row, last.length)
        last.row = slot.row
        live[last.row] = last
      }
      const { prompt } = slot
      prompt.slots.splice(prompt.slots.indexOf(slot), 1)
      if (prompt.slots.length > 0) continue
      const moved = prompts.pop() as Prompt
      if (moved === prompt) continue
      copyRow(config, prefix, moved.row, prefix, prompt.row, moved.length)
      moved.row = prompt.row
      prompts[moved.row] = moved
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

/** Room for windows of up to `most`, beginning with `window`. */
function openCache(
  config: ModelConfig,
  shelf: Shelf,
  rows: number,
  window: number,
  most: number,
): KeyValueCache {
  const grown = window + Math.ceil(Math.max(0, most - window) / WINDOW_GROWTH) * WINDOW_GROWTH
  const size = rows * config.kvHeads * grown * config.headDim
  const arrays = Array.from({ length: 2 * config.layers }, () => shelf.take(size))
  return { window, arrays }
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
        const [from, to] = [line * headDim, (line * cache.window + length) * headDim]
        // A view for each of so few numbers costs more than to copy them.
        for (let i = 0; i < headDim; i++) array[to + i] = fresh[from + i]
      }
    })
  })
}

/** Room for what a program gives: log-probabilities of so many rows, keys and values of so many positions, as a cache has them. */
interface Room {
  logprobs: Float32Array
  arrays: Float32Array[]
}

function openRoom(
  { vocabSize, kvHeads, headDim, layers }: ModelConfig,
  shelf: Shelf,
  rows: number,
  positions: number,
): Room {
  return {
    logprobs: shelf.take(rows * vocabSize),
    arrays: Array.from({ length: 2 * layers }, () => shelf.take(positions * kvHeads * headDim)),
  }
}

/** Where a program of so many rows is to write: `time` new keys and values a row, which it names with `before`. */
function outputsIn(
  { vocabSize, kvHeads, headDim }: ModelConfig,
  { logprobs, arrays }: Room,
  { rows, time, before }: { rows: number; time: number; before: string },
): Values {
  const caches = arrays.map((array, a): [string, Value] => [
    before + cacheName(a),
    floats(array.subarray(0, rows * kvHeads * time * headDim), [rows, kvHeads, time, headDim]),
  ])
  return {
    logprobs: floats(logprobs.subarray(0, rows * vocabSize), [rows, vocabSize]),
    ...Object.fromEntries(caches),
  }
}

/** What a step reads beside its tokens, and writes, as long as the same samples are on their way in the same window. */
interface StepFeeds {
  values: Record<string, Value>
  into: Values
  /** Shows each sample the position that its next token's keys and values are written to. */
  show(): void
}

/** The caches' rows, read in place; which samples ask which prompt; what each may see (`model.StepCache`). */
function stepFeeds(
  config: ModelConfig,
  prefix: KeyValueCache,
  prompts: readonly Prompt[],
  own: KeyValueCache,
  room: Room,
  live: readonly Slot[],
): StepFeeds {
  const { heads, kvHeads, headDim, layers } = config
  const group = heads / kvHeads
  const batch = live.length
  const most = Math.max(...prompts.map(({ slots }) => slots.length))
  const asked = most * group
  const columns = prefix.window + own.window + 1
  const asks = new Int32Array(prompts.length * kvHeads * asked)
  const places = new Int32Array(batch * heads)
  const mask = new Float32Array(prompts.length * asked * columns)
  /** For each row of the batch, where its first line of the mask ends that of the prompt. */
  const starts = new Int32Array(batch)
  prompts.forEach(({ slots, length }, p) => {
    for (let s = 0; s < most; s++) {
      // Where a prompt has fewer samples than another, its first asks again, and nobody looks at the answer.
      const slot = slots[s] ?? slots[0]
      for (let head = 0; head < kvHeads; head++) {
        for (let g = 0; g < group; g++) {
          const query = (slot.row * kvHeads + head) * group + g
          const place = (p * kvHeads + head) * asked + s * group + g
          asks[place] = query
          if (s < slots.length) places[query] = place
        }
      }
      const line = (p * asked + s * group) * columns
      if (s < slots.length) starts[slot.row] = line + prefix.window
      for (let g = 0; g < group; g++) {
        const from = line + g * columns
        mask.fill(MASKED, from + length, from + prefix.window)
        mask.fill(MASKED, from + prefix.window + slot.length, from + columns - 1)
      }
    }
  })
  const values: Record<string, Value> = {
    rows: int32s(
      Int32Array.from({ length: batch }, (_, row) => row),
      [batch],
    ),
    asks: int32s(asks, [prompts.length, kvHeads, asked]),
    places: int32s(places, [batch, kvHeads, group]),
    prefix: int64s([prefix.window], [1]),
    mask: floats(mask, [prompts.length, 1, asked, columns]),
  }
  const rowsOf = (cache: KeyValueCache, array: number, rows: number): Value =>
    floats(cache.arrays[array].subarray(0, rows * kvHeads * cache.window * headDim), [
      rows,
      kvHeads,
      cache.window,
      headDim,
    ])
  for (let layer = 0; layer < layers; layer++) {
    values[promptKey(layer)] = rowsOf(prefix, 2 * layer, prompts.length)
    values[promptValue(layer)] = rowsOf(prefix, 2 * layer + 1, prompts.length)
    values[cacheKey(layer)] = rowsOf(own, 2 * layer, batch)
    values[cacheValue(layer)] = rowsOf(own, 2 * layer + 1, batch)
  }
  return {
    values,
    into: outputsIn(config, room, { rows: batch, time: 1, before: 'new ' }),
    show() {
      for (const { row, length } of live) {
        for (let g = 0; g < group; g++) mask[starts[row] + g * columns + length] = 0
      }
    },
  }
}

async function runPrompts(
  { config, prompt, values }: GenerateContext,
  prompts: readonly (readonly number[])[],
  temperature: Value,
  room: Room,
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
  const inputs = {
    tokens: int32s(tokens, [batch, time]),
    positions: int64s(positions, [batch, time]),
    mask: floats(mask, [1, 1, time, time]),
    rows: int32s(
      prompts.map(({ length }, row) => row * time + length - 1),
      [batch],
    ),
    temperature,
  }
  const into = outputsIn(config, room, { rows: batch, time, before: '' })
  const outputs = await prompt.run([inputs, ...values], into)
  const arrays = Array.from({ length: 2 * config.layers }, (_, a) => floatData(outputs[cacheName(a)]))
  return { logprobs: floatData(outputs.logprobs), cache: { window: time, arrays } }
}

function cacheName(array: number): string {
  return array % 2 === 0 ? cacheKey(array >> 1) : cacheValue(array >> 1)
}
