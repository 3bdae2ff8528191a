/** A base model held once for all policies on it: cuts work into jobs for the lanes and puts their results together. */
import { cores } from '../../platform/machine.ts'
import type { ModelConfig } from '../checkpoint/config.ts'
import type { Weights } from '../checkpoint/folder.ts'
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
import { checkSampling, checkSequences } from './check.ts'
import { type FoundDevice, isHost } from './devices.ts'
import type { Model, NamedArray } from './lane.ts'
import { type PackOptions, planBatches, type Row } from './pack.ts'
import { openPool } from './pool.ts'
import type { AdapterShape } from './programs.ts'
import type { Scores, SequenceBatch } from './sequences.ts'
import { sharedZeros, type ThreadedAdam, threadedAdam } from './threadedAdam.ts'
import { sharesMemory } from './threads.ts'

/** How work is cut up: memory is bounded by these whatever the size of a request. */
export interface Limits extends PackOptions {
  /** Threads inside each operator of a lane. */
  threadsPerLane: number
  /** Samples decoded together in one lane. */
  decodeBatch: number
  /** Prompt tokens, padding included, computed together in one lane. */
  prefillTokens: number
  /** LoRA is folded into a copy of the projections, or kept beside them. */
  folds: boolean
  /** A lane keeps a second copy of the base's weights, packed once for sampling steps instead of anew in each. */
  packsSteps: boolean
}

export type LossBatch =
  | { kind: 'policy_gradient'; data: readonly PolicyDatum[]; loss: PolicyLoss }
  | { kind: 'cross_entropy'; data: readonly SupervisedDatum[] }

/** Gradients as they are added up. */
export interface GradientSums {
  readonly arrays: readonly Float32Array[]
  /** Nothing was added since the last step, and what the arrays hold does not count. */
  empty: boolean
}

export interface Base {
  config: ModelConfig
  parameters: number
  folds: boolean
  /** How adapters are updated, where one thread would keep a GPU waiting. */
  adam?: ThreadedAdam
  /** Allocates what an update changes: in shared memory where `adam` is there. */
  zeros(length: number): Float32Array
  /** Sends tensors that stand before the base's to every lane; `fold` folds an adapter into the weights there. */
  overlay(tensors: readonly NamedArray[], fold?: AdapterShape): Promise<number>
  forget(overlay: number): Promise<void>
  sample(model: Model, requests: readonly SampleRequest[], options: SampleOptions): Promise<Completion[][]>
  score(model: Model, sequences: readonly Sequence[], temperature: number): Promise<Float32Array[]>
  /** Adds the batch's gradients of the named tensors to `sums`, in the same order. */
  accumulate(
    model: Model,
    names: readonly string[],
    sums: GradientSums,
    batch: LossBatch,
  ): Promise<LossReport>
  close(): Promise<void>
}

const cpu: FoundDevice = { device: 'cpu', precision: 'float32' }

/** With `givesUp` the weights are the base's from now on: a large model is then never held twice. */
export function openBase(
  config: ModelConfig,
  weights: Weights,
  limits: Limits,
  { givesUp = false, place = cpu }: { givesUp?: boolean; place?: FoundDevice } = {},
): Base {
  const arrays = [...weights].map(([name, { shape, data }]) => ({ name, shape, data }))
  const parameters = arrays.reduce((sum, { data }) => sum + data.length, 0)
  const options = {
    config,
    weights: arrays,
    threads: limits.threadsPerLane,
    prefillTokens: limits.prefillTokens,
    folds: limits.folds,
    packsSteps: limits.packsSteps,
    // The rotary operator wants tables as long as a row, though a packed row's positions never pass the context.
    rotaryLength: Math.max(config.contextLength, limits.rowLimit),
    place,
  }
  const pool = openPool(limits.lanes, options, givesUp)
  /** One job for each lane: batch i goes to lane i modulo their number. */
  const deal = <T>(items: readonly T[]): T[][] =>
    Array.from({ length: limits.lanes }, (_, lane) =>
      items.filter((_, i) => i % limits.lanes === lane),
    ).filter((part) => part.length > 0)
  const everyLane = (job: Parameters<typeof pool.run>[1]) =>
    Promise.all(Array.from({ length: limits.lanes }, (_, lane) => pool.run(lane, job)))
  let overlays = 0
  const adam = isHost(place.device) || !sharesMemory ? undefined : threadedAdam(cores())

  return {
    config,
    parameters,
    folds: limits.folds,
    adam,
    zeros: adam ? sharedZeros : (length) => new Float32Array(length),
    async overlay(tensors, fold) {
      const id = overlays++
      await everyLane({ kind: 'overlay', id, tensors, fold })
      return id
    },
    async forget(id) {
      await everyLane({ kind: 'overlay', id, tensors: null })
    },
    async sample(model, requests, { onTokens, onDrawn, signal, ...sampling }) {
      checkSampling(config, requests, sampling)
      const results: Completion[][] = requests.map(() => [])
      await allOf(
        deal(share(requests, limits)).map(async (chunks, lane) => {
          for (const chunk of chunks) {
            const job = {
              kind: 'generate',
              ...model,
              requests: chunk.map((i) => requests[i]),
              sampling,
              tells: onDrawn !== undefined,
            } as const
            const groups = await pool.run(lane, job, {
              onTokens(newTokens, drawn) {
                onTokens?.(newTokens)
                onDrawn?.(drawn.map((one) => ({ ...one, request: chunk[one.request] })))
              },
              signal,
            })
            groups.forEach((group, i) => {
              results[chunk[i]] = group
            })
          }
        }),
      )
      return results
    },
    async score(model, sequences, temperature) {
      checkSequences(config, sequences)
      const batches = planBatches(sequences, limits).map((rows) => withCompletions(rows, sequences))
      const scores = await allOf(
        deal(batches).map((part, lane) =>
          pool.run(lane, { kind: 'score', ...model, batches: part, temperature }),
        ),
      )
      return inOrder(sequences, scores)
    },
    async accumulate(model, names, sums, batch) {
      const { data } = batch
      checkSequences(config, data)
      const policy = batch.kind === 'policy_gradient'
      const advantages =
        batch.kind === 'policy_gradient' ? maskedAdvantages(batch.data) : weightsOf(batch.data)
      const old = batch.kind === 'policy_gradient' ? batch.data.map(({ logprobs }) => logprobs) : []
      const batches = planBatches(data, limits).map((rows) => ({
        ...withCompletions(rows, data),
        advantages: only(rows, advantages),
        old: policy ? only(rows, old) : [],
      }))
      const settings = policy
        ? {
            temperature: batch.loss.temperature,
            low: 1 - batch.loss.clipLow,
            high: 1 + batch.loss.clipHigh,
          }
        : { temperature: 1, low: 1, high: 1 }
      const parts = await allOf(
        deal(batches).map((part, lane) =>
          pool.run(lane, {
            kind: 'train',
            ...model,
            batches: part,
            loss: batch.kind,
            names,
            into: adam && sums.empty ? sums.arrays : undefined,
            ...settings,
          }),
        ),
      )
      // In the lanes' order: the sums do not depend on which ended first.
      for (const { gradients } of parts) {
        gradients.forEach((part, n) => {
          const sum = sums.arrays[n]
          if (sums.empty) sum.set(part)
          else for (let i = 0; i < sum.length; i++) sum[i] += part[i]
        })
        sums.empty = false
      }
      const loss = parts.reduce((sum, part) => sum + part.loss, 0)
      const logprobs = inOrder(
        data,
        parts.map((part) => part.logprobs),
      )
      return { loss, logprobs, ...counts(batch, logprobs) }
    },
    async close() {
      await Promise.all([pool.close(), adam?.close()])
    },
  }
}

/** Waits for all, then passes on the first error: nothing goes on computing behind the caller's back. */
async function allOf<T>(work: readonly Promise<T>[]): Promise<T[]> {
  const ends = await Promise.allSettled(work)
  return ends.map((end) => {
    if (end.status === 'rejected') throw end.reason
    return end.value
  })
}

/**
 * Cuts requests into chunks that decode together: like lengths side by side, about equal work for each lane, at most
 * about `decodeBatch` samples each.
 */
function share(requests: readonly SampleRequest[], { lanes, decodeBatch }: Limits): number[][] {
  const order = requests.map((_, index) => index).filter((index) => requests[index].seeds.length > 0)
  order.sort((a, b) => requests[b].prompt.length - requests[a].prompt.length || a - b)
  const samples = order.reduce((sum, index) => sum + requests[index].seeds.length, 0)
  const count = lanes * Math.ceil(samples / (lanes * decodeBatch))
  const chunks: number[][] = Array.from({ length: count }, () => [])
  let before = 0
  for (const index of order) {
    chunks[Math.floor((before * count) / samples)].push(index)
    before += requests[index].seeds.length
  }
  return chunks.filter((chunk) => chunk.length > 0)
}

function withCompletions(rows: readonly Row[], sequences: readonly Sequence[]): SequenceBatch {
  return {
    rows,
    completions: only(
      rows,
      sequences.map(({ completion }) => completion),
    ),
  }
}

/** The entries that a batch's rows refer to, at their own index; the rest stay holes, so that little is sent. */
function only<T>(rows: readonly Row[], items: readonly T[]): T[] {
  const kept: T[] = []
  for (const { members } of rows) for (const index of members) kept[index] = items[index]
  return kept
}

function inOrder(sequences: readonly Sequence[], parts: readonly Scores[]): Float32Array[] {
  const all = new Map(parts.flatMap((part) => [...part]))
  return sequences.map((_, index) => all.get(index) ?? new Float32Array(0))
}

/** The loss is linear in the advantage where the mask is 0 or 1, so the mask is folded in. */
function maskedAdvantages(data: readonly PolicyDatum[]): (readonly number[])[] {
  return data.map(({ advantages, mask }) =>
    mask === undefined ? advantages : advantages.map((advantage, t) => advantage * mask[t]),
  )
}

function weightsOf(data: readonly SupervisedDatum[]): (readonly number[])[] {
  return data.map(({ weights }) => weights)
}

function counts(
  batch: LossBatch,
  logprobs: readonly Float32Array[],
): { tokens: number; clippedShare: number } {
  let tokens = 0
  let clipped = 0
  if (batch.kind === 'cross_entropy') {
    for (const { weights } of batch.data) tokens += weights.filter((weight) => weight !== 0).length
    return { tokens, clippedShare: 0 }
  }
  const { clipLow, clipHigh } = batch.loss
  batch.data.forEach(({ logprobs: old, advantages, mask }, i) => {
    logprobs[i].forEach((logprob, t) => {
      if (mask !== undefined && mask[t] === 0) return
      tokens++
      const ratio = Math.exp(logprob - old[t])
      if (advantages[t] > 0 ? ratio > 1 + clipHigh : advantages[t] < 0 && ratio < 1 - clipLow) clipped++
    })
  })
  return { tokens, clippedShare: tokens === 0 ? 0 : clipped / tokens }
}
