/**
 * One lane of computation: a copy of the base's weights and its compiled programs, in a worker thread of its own (see
 * `worker.ts`). It takes whole jobs, so that little is sent to and fro.
 */
import type { ModelConfig } from '../checkpoint/config.ts'
import type { Completion, SampleRequest } from '../contract.ts'
import type { FoundDevice } from './devices.ts'
import { type GenerateContext, generate, type Sampling } from './generate.ts'
import { rotaryTables } from './model.ts'
import { type AdapterShape, foldProgram, promptProgram, sequenceProgram, stepProgram } from './programs.ts'
import { runtimeOf } from './runtime.ts'
import {
  type LossSettings,
  type Scores,
  type SequenceBatch,
  scoreBatches,
  type TrainBatch,
  type TrainResult,
  trainBatches,
} from './sequences.ts'
import { compile, floatData, floats, type Program, type Values } from './session.ts'
import { openShelf } from './shelf.ts'

/** Blocks of positions that attention goes by: of what no position may see, four leave out three quarters. */
export const BLOCKS = 4
const inBlocks = (size: number) => Math.ceil(size / BLOCKS) * BLOCKS

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
  /** Whether an adapter is folded into the weights in training. */
  folds: boolean
  /** Keeps a second copy of weights that steps multiply by, packed once for that instead of anew in each step. */
  packsSteps: boolean
  /** Positions that the rotary tables must hold. */
  rotaryLength: number
  /** Where the lane computes. */
  place: FoundDevice
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
  /** Drawn tokens are told of, not their number alone. */
  tells?: boolean
}

export interface ScoreJob extends Model {
  kind: 'score'
  batches: readonly SequenceBatch[]
  temperature: number
}

export interface TrainJob extends Model, LossSettings {
  kind: 'train'
  batches: readonly TrainBatch[]
}

export interface Lane {
  overlay(job: OverlayJob): Promise<void>
  generate(
    job: GenerateJob,
    onTokens: GenerateContext['onTokens'],
    check: GenerateContext['check'],
  ): Promise<Completion[][]>
  score(job: ScoreJob): Promise<Scores>
  train(job: TrainJob): Promise<TrainResult>
  /** Lets go of what would outlive its thread. */
  close?(): Promise<void>
}

export function openLane(options: LaneOptions): Lane {
  const { config, weights, threads, prefillTokens, rotaryLength } = options
  const runtime = runtimeOf(options.place.device)
  const named = (arrays: readonly NamedArray[]): Values =>
    Object.fromEntries(arrays.map(({ name, shape, data }) => [name, floats(data, shape)]))
  const base = named(weights)
  const half = config.headDim / 2
  const { cos, sin } = rotaryTables(config, rotaryLength)
  const rotary = { cos: floats(cos, [rotaryLength, half]), sin: floats(sin, [rotaryLength, half]) }

  // A large model's caches are let go, for training needs the memory.
  const shelf = openShelf(options.folds)
  const overlays = new Map<number, Values>()
  const valuesOf = ({ overlay }: Model): Values[] => {
    const over = overlay === null ? {} : overlays.get(overlay)
    if (over === undefined) throw new Error(`overlay ${overlay} was not sent to this lane`)
    return [over, base, rotary]
  }

  const programs = new Map<string, Promise<Program>>()
  const keyOf = (name: string, adapter: AdapterShape | undefined) =>
    adapter ? `${name}, rank ${adapter.rank}, scale ${adapter.scale}` : name
  const program = (
    name: string,
    adapter: AdapterShape | undefined,
    build: () => Uint8Array,
  ): Promise<Program> => {
    const key = keyOf(name, adapter)
    let found = programs.get(key)
    if (found === undefined) {
      found = compile(build(), { runtime, threads })
      programs.set(key, found)
    }
    return found
  }

  const packable = weights.filter(({ name, shape }) => options.packsSteps && isConstant(options, name, shape))
  const graphs = new Map<string, Uint8Array>()
  /** The one step whose weights are packed: each holds a copy of them. */
  let packed: { key: string; program: Program } | undefined
  const packedStep = async (
    key: string,
    over: Values | undefined,
    adapter?: AdapterShape,
  ): Promise<Program> => {
    if (packed?.key === key) return packed.program
    const old = packed?.program
    packed = undefined
    await old?.release()
    const shape = keyOf('packed step', adapter)
    const constants = packable.map(({ name }): [string, Uint8Array] => {
      const data = floatData(over?.[name] ?? base[name])
      return [name, new Uint8Array(data.buffer, data.byteOffset, data.byteLength)]
    })
    const names = new Set(packable.map(({ name }) => name))
    const graph = graphs.get(shape) ?? stepProgram(config, { adapter }, { constants: names })
    graphs.set(shape, graph)
    packed = { key, program: await compile(graph, { runtime, threads, constants: new Map(constants) }) }
    return packed.program
  }
  /** The program of a step of so many rows. */
  const step = async ({ overlay, adapter }: Model): Promise<(rows: number) => Program> => {
    const over = overlay === null ? undefined : overlays.get(overlay)
    const own = packable.every(({ name }) => over?.[name] === undefined)
    // A large model whose every weight is trained is not copied after each update.
    const packs = packable.length > 0 && (own || options.folds)
    const fast = packs
      ? await packedStep(keyOf(own ? 'own' : `overlay ${overlay}`, adapter), over, adapter)
      : null
    if (fast && !options.folds) return () => fast
    const plain = await program('step', adapter, () => stepProgram(config, { adapter }))
    return (rows) => (fast && rows > 1 ? fast : plain)
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
      const { adapter, requests, sampling, tells = false } = job
      const context = {
        config,
        prompt: await program('prompt', adapter, () => promptProgram(config, { adapter })),
        step: await step(job),
        values: valuesOf(job),
        prefillTokens,
        shelf,
        onTokens,
        tells,
        check,
      }
      return generate(context, requests, sampling)
    },
    async score(job) {
      const { adapter, batches, temperature } = job
      const scoring = await program('score', adapter, () =>
        sequenceProgram(config, { adapter, trained: 'none' }, { blocks: BLOCKS }),
      )
      return scoreBatches(scoring, valuesOf(job), batches, temperature, inBlocks)
    },
    async train(job) {
      const { adapter, batches, loss } = job
      const training = await program(`train ${loss}`, adapter, () =>
        adapter
          ? sequenceProgram(
              config,
              { adapter, trained: 'adapter', folded: options.folds, loss },
              { blocks: BLOCKS },
            )
          : // As the built-in policy was made: another order of the same sums would give it other bytes.
            sequenceProgram(config, { trained: 'all', loss }),
      )
      return trainBatches(training, valuesOf(job), batches, job, adapter && inBlocks)
    },
    async close() {
      const compiled = await Promise.all(programs.values())
      await Promise.all([...compiled, packed?.program].map((one) => one?.release()))
    },
  }
}

/**
 * ONNX Runtime adds a packed product up in longer parts of the inner axis than another, but for axes as short as this:
 * these have the same bits either way, but for a single row.
 */
const SAME_SUMS = 128

/**
 * Whether a step has this weight in it, packed if products read it, instead of being given it each time. A small model's
 * only where that does not change a bit.
 */
function isConstant({ config, folds }: LaneOptions, name: string, shape: readonly number[]): boolean {
  return shape.length === 1 || (isMultipliedBy(config, name) && (!folds || shape[1] <= SAME_SUMS))
}

/** Whether a step's products have this weight as their right side: the projections, and the vocabulary's head. */
function isMultipliedBy({ tieEmbeddings }: ModelConfig, name: string): boolean {
  const head = tieEmbeddings ? 'model.embed_tokens.weight' : 'lm_head.weight'
  return name === head || name.endsWith('_proj.weight')
}
