/** Runs packed batches of sequences through a scoring or training program, whatever device it was compiled for. */
import { say } from '../../platform/machine.ts'
import { type PackedBatch, packRows, type Row } from './pack.ts'
import { gradientName, type LossKind } from './programs.ts'
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

/** A batch of rows with all that its sequences need, by index. */
export interface SequenceBatch {
  rows: readonly Row[]
  completions: readonly (readonly number[])[]
}

export interface TrainBatch extends SequenceBatch {
  /** Per token: masked advantages, or for cross-entropy the weights. */
  advantages: readonly (readonly number[])[]
  /** Per token, for the policy gradient: log-probabilities when sampled. */
  old: readonly (readonly number[])[]
}

export interface LossSettings {
  loss: LossKind
  temperature: number
  low: number
  high: number
  /** The tensors to give gradients of. */
  names: readonly string[]
  /** Arrays in shared memory, by `names`, that a lane may write the gradients into instead of giving them back. */
  into?: readonly Float32Array[]
}

/** Log-probabilities by sequence index. */
export type Scores = Map<number, Float32Array>

export interface TrainResult {
  loss: number
  logprobs: Scores
  gradients: Float32Array[]
}

/** Scores every batch; `values` hold weights, adapter and rotary tables. `lengthen` pads time and targets. */
export async function scoreBatches(
  program: Program,
  values: readonly Values[],
  batches: readonly SequenceBatch[],
  temperature: number,
  lengthen?: (size: number) => number,
): Promise<Scores> {
  const run = async (inputs: Values) => floatData((await program.run([inputs, ...values])).logprobs)
  return scoreBy(batches, temperature, run, lengthen)
}

/**
 * Scores every batch with `run`, which gives the log-probabilities [targets] of a packed batch's inputs. `lengthen` pads
 * time and targets.
 */
export async function scoreBy(
  batches: readonly SequenceBatch[],
  temperature: number,
  run: (inputs: Values, targets: number) => Promise<Float32Array>,
  lengthen?: (size: number) => number,
): Promise<Scores> {
  const scores: Scores = new Map()
  await eachFitting(batches, async (batch) => {
    const packed = packRows(batch.rows, batch.completions, lengthen)
    const inputs = { ...sequenceInputs(packed), temperature: scalar(temperature) }
    collect(packed, await run(inputs, packed.rows.length), scores)
  })
  return scores
}

/** The loss and gradients, summed over all batches. `lengthen` as for scoring. */
export async function trainBatches(
  program: Program,
  values: readonly Values[],
  batches: readonly TrainBatch[],
  settings: LossSettings,
  lengthen?: (size: number) => number,
): Promise<TrainResult> {
  const result: TrainResult = { loss: 0, logprobs: new Map(), gradients: [] }
  await eachFitting(batches, async (batch) => {
    const packed = packRows(batch.rows, batch.completions, lengthen)
    const outputs = await program.run([trainInputs(packed, batch, settings), ...values])
    result.loss += floatData(outputs.loss)[0]
    collect(packed, floatData(outputs.logprobs), result.logprobs)
    settings.names.forEach((name, n) => {
      const part = floatData(outputs[gradientName(name)])
      const sum = result.gradients[n]
      if (sum === undefined) result.gradients[n] = part
      else for (let i = 0; i < sum.length; i++) sum[i] += part[i]
    })
  })
  return result
}

/** The same where sums are kept by what runs the batches: with `clear` they begin anew. `lengthen` pads time and targets. */
export async function trainSumming(
  batches: readonly TrainBatch[],
  settings: LossSettings,
  sums: {
    clear(): Promise<void>
    /** Runs a batch of [rows] targets, adds its gradients, and gives its loss and log-probabilities. */
    add(inputs: Values, targets: number): Promise<{ loss: number; logprobs: Float32Array }>
    read(): Promise<Float32Array[]>
  },
  lengthen?: (size: number) => number,
): Promise<TrainResult> {
  const result: TrainResult = { loss: 0, logprobs: new Map(), gradients: [] }
  try {
    await sums.clear()
    for (const batch of batches) {
      const packed = packRows(batch.rows, batch.completions, lengthen)
      const found = await sums.add(trainInputs(packed, batch, settings), packed.rows.length)
      result.loss += found.loss
      collect(packed, found.logprobs, result.logprobs)
    }
    return { ...result, gradients: await sums.read() }
  } catch (error) {
    const rows = Math.max(...batches.map((batch) => batch.rows.length))
    if (!lacksMemory(error) || rows < 2) throw error
    // Some of a batch's gradients may have been added before it failed: all begin anew.
    const fewer = Math.ceil(rows / 2)
    sayGoingOn(rows, 'rows of a batch', fewer)
    const halves = batches.flatMap((batch) =>
      [batch.rows.slice(0, fewer), batch.rows.slice(fewer)]
        .filter((part) => part.length > 0)
        .map((part) => ({ ...batch, rows: part })),
    )
    return trainSumming(halves, settings, sums, lengthen)
  }
}

/** Values by sequence and token, in the order of a packed batch's targets. */
function perTarget({ rows, spans }: PackedBatch, values: readonly (readonly number[])[]): Float32Array {
  const flat = new Float32Array(rows.length)
  for (const { index, start } of spans) flat.set(values[index], start)
  return flat
}

/** A packed batch and what its loss is made of. */
function trainInputs(
  packed: PackedBatch,
  batch: TrainBatch,
  { loss, temperature, low, high }: LossSettings,
): Values {
  const count = packed.rows.length
  const advantages = perTarget(packed, batch.advantages)
  return {
    ...sequenceInputs(packed),
    temperature: scalar(temperature),
    low: scalar(low),
    high: scalar(high),
    lossScale: scalar(lossScale(advantages)),
    advantages: floats(advantages, [count]),
    ...(loss === 'policy_gradient' && { old: floats(perTarget(packed, batch.old), [count]) }),
  }
}

/** A packed batch as the sequence programs' inputs. */
export function sequenceInputs(packed: PackedBatch): Record<string, Value> {
  const { batch, time, tokens, positions, segments, rows, targets } = packed
  return {
    tokens: int32s(tokens, [batch, time]),
    positions: int64s(positions, [batch, time]),
    segments: int32s(segments, [batch, time]),
    order: orderInput(time),
    rows: int32s(rows, [rows.length]),
    targets: int32s(targets, [targets.length]),
  }
}

function orderInput(time: number): Value {
  return int32s(
    Int32Array.from({ length: time }, (_, at) => at),
    [time],
  )
}

/** A power of two that brings the largest advantage near 1, so that gradients in halves neither vanish nor overflow. */
function lossScale(advantages: Float32Array): number {
  const largest = advantages.reduce((max, value) => Math.max(max, Math.abs(value)), 0)
  return largest === 0 ? 1 : 2 ** -Math.round(Math.log2(largest))
}

/** Does each batch; one that memory does not suffice for is done in halves. */
async function eachFitting<B extends SequenceBatch>(
  batches: readonly B[],
  perform: (batch: B) => Promise<void>,
): Promise<void> {
  for (const batch of batches) {
    await halvingOnLack(batch.rows, 'rows of a batch', (rows) => perform({ ...batch, rows }))
  }
}

/**
 * Does all of the items at once, or where the device's memory does not suffice, one half after the other, and says so.
 * Throws the runtime's error where a single item does not fit.
 */
export async function halvingOnLack<T>(
  items: readonly T[],
  what: string,
  perform: (items: readonly T[]) => Promise<void>,
): Promise<void> {
  try {
    await perform(items)
  } catch (error) {
    if (!lacksMemory(error) || items.length < 2) throw error
    const middle = Math.ceil(items.length / 2)
    sayGoingOn(items.length, what, middle)
    await halvingOnLack(items.slice(0, middle), what, perform)
    await halvingOnLack(items.slice(middle), what, perform)
  }
}

function sayGoingOn(count: number, what: string, fewer: number): void {
  say(`Memory does not suffice for ${count} ${what} at once: going on with ${fewer}.`)
}

export function lacksMemory(error: unknown): boolean {
  return (
    error instanceof Error &&
    /out of memory|allocate memory|bad_alloc|failed to allocate/i.test(error.message)
  )
}

function collect({ spans }: PackedBatch, flat: Float32Array, into: Scores): void {
  for (const { index, start, count } of spans) into.set(index, flat.slice(start, start + count))
}
