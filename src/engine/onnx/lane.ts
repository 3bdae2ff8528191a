/**
 * One lane of computation: a copy of the base's weights and its compiled programs, in a worker thread of its own (see
 * `worker.ts`). It takes whole jobs, so that little is sent to and fro.
 */
import type { ModelConfig } from '../checkpoint/config.ts'
import type { Completion, SampleRequest } from '../contract.ts'
import { generate, type Sampling } from './generate.ts'
import { rotaryTables } from './model.ts'
import { layOut, type PackedBatch, type Row } from './pack.ts'
import {
  type AdapterShape,
  foldProgram,
  gradientName,
  type LossKind,
  promptProgram,
  sequenceProgram,
  stepProgram,
} from './programs.ts'
import {
  compile,
  floatData,
  floats,
  int32s,
  int64s,
  type Program,
  scalar,
  type Value,
  type Values,
} from './session.ts'

export interface NamedArray {
  name: string
  shape: readonly number[]
  data: Float32Array
}

export interface LaneOptions {
  config: ModelConfig
  weights: readonly NamedArray[]
  /** Threads inside each operator. */
  threads: number
  prefillTokens: number
  /** Positions that the rotary tables must hold. */
  rotaryLength: number
}

/** Which tensors stand before the base's: an adapter, its folded weights, or weights under training. */
export interface Model {
  overlay: number | null
  /** Set where LoRA stands beside the base's weights and is not folded into them. */
  adapter?: AdapterShape
}

export interface OverlayJob {
  kind: 'overlay'
  id: number
  /** null forgets the overlay. */
  tensors: readonly NamedArray[] | null
  /** Keep the weights with this adapter folded in, in place of the adapter itself. */
  fold?: AdapterShape
}

export interface GenerateJob extends Model {
  kind: 'generate'
  requests: readonly SampleRequest[]
  sampling: Sampling
}

/** A batch of rows with all that its sequences need, by index. */
export interface SequenceBatch {
  rows: readonly Row[]
  completions: readonly (readonly number[])[]
}

export interface ScoreJob extends Model {
  kind: 'score'
  batches: readonly SequenceBatch[]
  temperature: number
}

export interface TrainJob extends Model {
  kind: 'train'
  batches: readonly (SequenceBatch & {
    /** Per token: masked advantages, or for cross-entropy the weights. */
    advantages: readonly (readonly number[])[]
    /** Per token, for the policy gradient: log-probabilities when sampled. */
    old: readonly (readonly number[])[]
  })[]
  loss: LossKind
  temperature: number
  low: number
  high: number
  /** The tensors to give gradients of. */
  names: readonly string[]
}

/** Log-probabilities by sequence index. */
export type Scores = Map<number, Float32Array>

export interface TrainResult {
  loss: number
  logprobs: Scores
  gradients: Float32Array[]
}

export interface Lane {
  overlay(job: OverlayJob): Promise<void>
  generate(
    job: GenerateJob,
    onTokens: (newTokens: number) => void,
    check: () => void,
  ): Promise<Completion[][]>
  score(job: ScoreJob): Promise<Scores>
  train(job: TrainJob): Promise<TrainResult>
}

export function openLane({ config, weights, threads, prefillTokens, rotaryLength }: LaneOptions): Lane {
  const named = (arrays: readonly NamedArray[]): Values =>
    Object.fromEntries(arrays.map(({ name, shape, data }) => [name, floats(data, shape)]))
  const base = named(weights)
  const half = config.headDim / 2
  const { cos, sin } = rotaryTables(config, rotaryLength)
  const rotary = { cos: floats(cos, [rotaryLength, half]), sin: floats(sin, [rotaryLength, half]) }

  const overlays = new Map<number, Values>()
  const valuesOf = ({ overlay }: Model): Values[] => {
    const over = overlay === null ? {} : overlays.get(overlay)
    if (over === undefined) throw new Error(`overlay ${overlay} was not sent to this lane`)
    return [over, base, rotary]
  }

  const programs = new Map<string, Promise<Program>>()
  const program = (
    name: string,
    adapter: AdapterShape | undefined,
    build: () => Uint8Array,
  ): Promise<Program> => {
    const key = adapter ? `${name}, rank ${adapter.rank}, scale ${adapter.scale}` : name
    let found = programs.get(key)
    if (found === undefined) {
      found = compile(build(), { threads })
      programs.set(key, found)
    }
    return found
  }
  return {
    async overlay({ id, tensors, fold }) {
      if (tensors === null) {
        overlays.delete(id)
      } else if (fold === undefined) {
        overlays.set(id, named(tensors))
      } else {
        const folding = await program('fold', fold, () => foldProgram(config, fold))
        const folded = Object.entries(await folding.run([named(tensors), base]))
        overlays.set(
          id,
          Object.fromEntries(folded.map(([name, value]) => [name.slice('folded '.length), value])),
        )
      }
    },
    async generate(job, onTokens, check) {
      const { adapter, requests, sampling } = job
      const context = {
        config,
        prompt: await program('prompt', adapter, () => promptProgram(config, { adapter })),
        step: await program('step', adapter, () => stepProgram(config, { adapter })),
        values: valuesOf(job),
        prefillTokens,
        onTokens,
        check,
      }
      return generate(context, requests, sampling)
    },
    async score(job) {
      const { adapter, batches, temperature } = job
      const scoring = await program('score', adapter, () =>
        sequenceProgram(config, { adapter, trained: 'none' }),
      )
      const scores: Scores = new Map()
      for (const batch of batches) {
        const packed = layOut(batch.rows, batch.completions)
        const { logprobs } = await scoring.run([
          { ...sequenceInputs(packed), temperature: scalar(temperature) },
          ...valuesOf(job),
        ])
        collect(packed.spans, floatData(logprobs), scores)
      }
      return scores
    },
    async train(job) {
      const { adapter, batches, loss, names } = job
      const trained = adapter ? 'adapter' : 'all'
      const training = await program(`train ${loss}`, adapter, () =>
        sequenceProgram(config, { adapter, trained, loss }),
      )
      const settings: Values = {
        temperature: scalar(job.temperature),
        low: scalar(job.low),
        high: scalar(job.high),
      }
      const result: TrainResult = { loss: 0, logprobs: new Map(), gradients: [] }
      for (const batch of batches) {
        const packed = layOut(batch.rows, batch.completions)
        const { spans } = packed
        const count = packed.rows.length
        const perToken = (values: readonly (readonly number[])[]) => {
          const flat = new Float32Array(count)
          for (const { index, start } of spans) flat.set(values[index], start)
          return floats(flat, [count])
        }
        const tokens: Values = loss === 'policy_gradient' ? { old: perToken(batch.old) } : {}
        const outputs = await training.run([
          { ...sequenceInputs(packed), ...settings, ...tokens, advantages: perToken(batch.advantages) },
          ...valuesOf(job),
        ])
        result.loss += floatData(outputs.loss)[0]
        collect(spans, floatData(outputs.logprobs), result.logprobs)
        names.forEach((name, n) => {
          const part = floatData(outputs[gradientName(name)])
          const sum = result.gradients[n]
          if (sum === undefined) result.gradients[n] = part
          else for (let i = 0; i < sum.length; i++) sum[i] += part[i]
        })
      }
      return result
    },
  }
}

interface Span {
  index: number
  start: number
  count: number
}

/** A packed batch as the sequence programs' inputs. */
export function sequenceInputs(packed: PackedBatch): Record<string, Value> {
  const { batch, time, tokens, positions, segments, rows, targets } = packed
  const order = Int32Array.from({ length: time }, (_, at) => at)
  return {
    tokens: int32s(tokens, [batch, time]),
    positions: int64s(positions, [batch, time]),
    segments: int32s(segments, [batch, time]),
    order: int32s(order, [time]),
    rows: int32s(rows, [rows.length]),
    targets: int32s(targets, [targets.length]),
  }
}

function collect(spans: readonly Span[], flat: Float32Array, into: Scores): void {
  for (const { index, start, count } of spans) into.set(index, flat.slice(start, start + count))
}
