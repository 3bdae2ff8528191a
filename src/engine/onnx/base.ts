/** A base model held once for all policies on it: weights, rotary tables, and the programs compiled so far. */
import type { ModelConfig } from '../checkpoint/config.ts'
import type { Weights } from '../checkpoint/model.ts'
import type {
  Completion,
  LossReport,
  PolicyDatum,
  PolicyLoss,
  SampleOptions,
  SampleRequest,
  Sequence,
  SupervisedDatum,
} from '../contract.ts'
import { generate } from './generate.ts'
import { inLanes } from './lanes.ts'
import { rotaryTables } from './model.ts'
import { type PackedBatch, type PackOptions, pack } from './pack.ts'
import {
  type AdapterShape,
  foldProgram,
  generationProgram,
  gradientName,
  sequenceProgram,
} from './programs.ts'
import {
  compile,
  floatData,
  floats,
  int64s,
  type Program,
  scalar,
  type Value,
  type Values,
} from './session.ts'

/** How work is cut up: memory is bounded by these whatever the size of a request. */
export interface Limits extends PackOptions {
  /** Batches computed at the same time, one thread each. */
  lanes: number
  decodeBatch: number
  prefillTokens: number
  /** LoRA is folded into a copy of the projections (sampling) and inside the training graph, or kept apart. */
  folds: boolean
}

export interface Base {
  config: ModelConfig
  parameters: number
  folds: boolean
  sample(
    over: Values,
    requests: readonly SampleRequest[],
    options: SampleOptions,
    adapter?: AdapterShape,
  ): Promise<Completion[][]>
  score(
    over: Values,
    sequences: readonly Sequence[],
    temperature: number,
    adapter?: AdapterShape,
  ): Promise<Float32Array[]>
  /** Adds the batch's gradients of the named tensors to `into`, in the same order. */
  accumulate(
    over: Values,
    names: readonly string[],
    into: readonly Float32Array[],
    batch: LossBatch,
    adapter?: AdapterShape,
  ): Promise<LossReport>
  /** The projections' weights with an adapter folded in. */
  fold(over: Values, adapter: AdapterShape): Promise<Values>
  close(): Promise<void>
}

export type LossBatch =
  | { kind: 'policy_gradient'; data: readonly PolicyDatum[]; loss: PolicyLoss }
  | { kind: 'cross_entropy'; data: readonly SupervisedDatum[] }

export function openBase(config: ModelConfig, weights: Weights, limits: Limits): Base {
  const values: Record<string, Value> = {}
  let parameters = 0
  for (const [name, { shape, data }] of weights) {
    values[name] = floats(data, shape)
    parameters += data.length
  }
  // The rotary operator wants tables as long as a row, though a packed row's positions never pass the context.
  const longest = Math.max(config.contextLength, limits.rowLimit)
  const { cos, sin } = rotaryTables(config, longest)
  const half = config.headDim / 2
  const rotary = {
    cos: floats(cos, [longest, half]),
    sin: floats(sin, [longest, half]),
  }

  const programs = new Map<string, Promise<Program>>()
  const program = (key: string, build: () => Uint8Array): Promise<Program> => {
    let found = programs.get(key)
    if (found === undefined) {
      found = compile(build())
      programs.set(key, found)
    }
    return found
  }
  const keyOf = (adapter?: AdapterShape) => (adapter ? `rank ${adapter.rank} scale ${adapter.scale}` : 'base')

  return {
    config,
    parameters,
    folds: limits.folds,
    async sample(over, requests, options, adapter) {
      const how = adapter ? 'factored' : 'none'
      const context = {
        config,
        program: await program(`generate ${keyOf(adapter)}`, () =>
          generationProgram(config, { adapter, how }),
        ),
        values: [over, values, rotary],
        ...limits,
      }
      return generate(context, requests, options)
    },
    async score(over, sequences, temperature, adapter) {
      const how = adapter ? 'factored' : 'none'
      const scoring = await program(`score ${keyOf(adapter)}`, () =>
        sequenceProgram(config, { adapter, how, trained: 'none' }),
      )
      const results = sequences.map(({ completion }) => new Float32Array(completion.length))
      await inLanes(pack(sequences, limits), limits.lanes, async (packed) => {
        const feeds = { ...sequenceFeeds(packed), temperature: scalar(temperature) }
        const { logprobs } = await scoring.run([feeds, over, values, rotary])
        unpack(packed, floatData(logprobs), results)
      })
      return results
    },
    async accumulate(over, names, into, batch, adapter) {
      const how = adapter ? (limits.folds ? 'folded' : 'factored') : 'none'
      const trained = adapter ? 'adapter' : 'all'
      const training = await program(`${batch.kind} ${keyOf(adapter)}`, () =>
        sequenceProgram(config, { adapter, how, trained, loss: batch.kind }),
      )
      const perToken = tokenInputs(batch)
      const logprobs = batch.data.map(({ completion }) => new Float32Array(completion.length))
      const packs = pack(batch.data, limits)
      let loss = 0
      // A wave of lanes at a time, summed in the batches' order: memory holds a few gradients, and sums do not depend on timing.
      for (let start = 0; start < packs.length; start += limits.lanes) {
        const wave = packs.slice(start, start + limits.lanes)
        const outputs = await inLanes(wave, limits.lanes, async (packed) => {
          const feeds = { ...sequenceFeeds(packed), ...lossFeeds(packed, batch, perToken) }
          return training.run([feeds, over, values, rotary])
        })
        outputs.forEach((output, i) => {
          unpack(wave[i], floatData(output.logprobs), logprobs)
          loss += floatData(output.loss)[0]
          names.forEach((name, n) => {
            const part = floatData(output[gradientName(name)])
            const sum = into[n]
            for (let k = 0; k < sum.length; k++) sum[k] += part[k]
          })
        })
      }
      return { loss, logprobs, ...counts(batch, logprobs, perToken) }
    },
    async fold(over, adapter) {
      const folding = await program(`fold ${keyOf(adapter)}`, () => foldProgram(config, adapter))
      const folded = await folding.run([over, values])
      return Object.fromEntries(
        Object.entries(folded).map(([name, value]) => [name.slice('folded '.length), value]),
      )
    },
    async close() {
      for (const opened of programs.values()) await (await opened).release()
      programs.clear()
    },
  }
}

/** The per-token inputs of a loss: weights or masked advantages, and for the policy gradient the old logprobs. */
interface TokenInputs {
  advantages: readonly (readonly number[])[]
  old: readonly (readonly number[])[]
}

function tokenInputs(batch: LossBatch): TokenInputs {
  if (batch.kind === 'cross_entropy') return { advantages: batch.data.map(({ weights }) => weights), old: [] }
  return {
    // The loss is linear in the advantage for a mask of 0 or 1, so the mask is folded in.
    advantages: batch.data.map(({ advantages, mask }) =>
      mask === undefined ? advantages : advantages.map((advantage, t) => advantage * mask[t]),
    ),
    old: batch.data.map(({ logprobs }) => logprobs),
  }
}

function sequenceFeeds({ batch, time, tokens, positions, mask, rows, targets }: PackedBatch): Values {
  return {
    tokens: int64s(tokens, [batch, time]),
    positions: int64s(positions, [batch, time]),
    mask: floats(mask, [batch, 1, time, time]),
    rows: int64s(rows, [rows.length]),
    targets: int64s(targets, [targets.length]),
  }
}

function lossFeeds(packed: PackedBatch, batch: LossBatch, { advantages, old }: TokenInputs): Values {
  const flat = (values: readonly (readonly number[])[]) => {
    const data = new Float32Array(packed.rows.length)
    for (const { index, start } of packed.spans) data.set(values[index], start)
    return floats(data, [data.length])
  }
  if (batch.kind === 'cross_entropy') return { advantages: flat(advantages), temperature: scalar(1) }
  const { clipLow, clipHigh, temperature } = batch.loss
  return {
    advantages: flat(advantages),
    old: flat(old),
    low: scalar(1 - clipLow),
    high: scalar(1 + clipHigh),
    temperature: scalar(temperature),
  }
}

function unpack({ spans }: PackedBatch, flat: Float32Array, into: readonly Float32Array[]): void {
  for (const { index, start, count } of spans) into[index].set(flat.subarray(start, start + count))
}

function counts(batch: LossBatch, logprobs: readonly Float32Array[], { advantages, old }: TokenInputs) {
  let tokens = 0
  let clipped = 0
  logprobs.forEach((line, i) => {
    const mask = batch.kind === 'policy_gradient' ? batch.data[i].mask : batch.data[i].weights
    line.forEach((logprob, t) => {
      if (mask !== undefined && mask[t] === 0) return
      tokens++
      if (batch.kind !== 'policy_gradient') return
      const ratio = Math.exp(logprob - old[i][t])
      const advantage = advantages[i][t]
      if (advantage > 0 ? ratio > 1 + batch.loss.clipHigh : advantage < 0 && ratio < 1 - batch.loss.clipLow)
        clipped++
    })
  })
  return { tokens, clippedShare: tokens === 0 ? 0 : clipped / tokens }
}
