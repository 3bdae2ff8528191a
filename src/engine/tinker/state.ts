/**
 * The state of a LoRA model that learns on a Tinker API server, and outlives what happens there.
 *
 * A server may be started anew at any moment, and a call may be lost with no word of whether it was done. Both are met
 * in one way. The state is known as its last checkpoint on the server and all calls since that changed it (one step's,
 * as a rule). Where it is no longer certain, a new model is made, the checkpoint is loaded into it and those calls are
 * done again; the old model, and whatever may still reach it, is let go.
 *
 * Owns the model, its checkpoint, the calls since and the sampler of its weights. Its calls come one after the other,
 * those with a sampler apart. Talks to one server at a time.
 */
import { LostError } from '../../errors.ts'
import type { LoraOptions } from '../contract.ts'
import { gradNormOf } from './capabilities.ts'
import { isUncertain, RECOVERIES } from './client.ts'
import type { Fleet } from './fleet.ts'
import { outputsOf, scaledDatum } from './loss.ts'
import type { RemoteModel } from './remote.ts'
import { type Server, saveWeights } from './server.ts'
import { type AdamParams, type LossInput, lossSchema, optimSchema } from './wire.ts'

export interface RemoteState {
  server(): Server
  /** Whether it was changed since its last checkpoint. */
  changed(): boolean
  /** The model as it is, made or brought back where need be. */
  current(): Promise<RemoteModel>
  /** Works with the model; where its state becomes uncertain, brings it back and works again. */
  surely<T>(work: (model: RemoteModel) => Promise<T>): Promise<T>
  /** Works with a sampler of the weights as they are. */
  withSampler<T>(work: (sampler: string) => Promise<T>): Promise<T>
  /** That model is not to be trained any more. */
  abandon(model: RemoteModel): void
  /** Adds a batch's gradient; the log-probabilities of its sequences' positions that it was taken at. */
  addGradient(input: LossInput): Promise<(number[] | undefined)[]>
  /**
   * A step. `scaleOf` says by the norm of the gradient, as the server tells it, what the gradient is to be multiplied
   * by, which makes the step again from the state before; null for a step that must not be: it throws `refusal`.
   */
  step(
    adam: AdamParams,
    scaleOf: (norm: number | undefined) => number | null,
    refusal: (norm: number | undefined) => Error,
  ): Promise<number | undefined>
  /** Makes a checkpoint of the state as it is, unless there is one. */
  keep(): Promise<string>
  /** The same where a step was made since the last: at most one step is ever done again. */
  keepStep(): Promise<void>
  /** The state is that of a checkpoint, on the server of that address where it is one of ours. */
  restore(checkpoint: string, url: string): Promise<void>
  /** Lets the model go. */
  release(): Promise<void>
}

interface Gradient {
  kind: 'gradient'
  input: LossInput
  scale: number
}

/** A call that changed the model. */
type Change = Gradient | { kind: 'step'; adam: AdamParams }

/** `retire` is told of checkpoints that a newer one takes the place of. */
export function openState(
  fleet: Fleet,
  lora: LoraOptions,
  retire: (checkpoint: string) => void,
): RemoteState {
  let server = fleet.choose()
  let model: RemoteModel | null = null
  /** The last checkpoint on the server; null before the model is made. */
  let checkpoint: string | null = null
  /** What changed the model since then, in order. */
  let changes: Change[] = []
  let sampler: Promise<string> | null = null
  let reviving: Promise<RemoteModel> | null = null

  const send = (to: RemoteModel, { input, scale }: Gradient) => {
    const scaled =
      scale === 1 ? input : { ...input, data: input.data.map((datum) => scaledDatum(datum, scale)) }
    return to.work('forward_backward', { forward_backward_input: scaled }, lossSchema)
  }
  const stepOf = (to: RemoteModel, adam: AdamParams) =>
    to.work('optim_step', { adam_params: adam }, optimSchema)

  async function revive(): Promise<RemoteModel> {
    for (let tries = 1; ; tries++) {
      let made: RemoteModel | undefined
      try {
        const created = await server.createModel(lora, checkpoint)
        made = created.model
        checkpoint = created.checkpoint
        for (const change of changes) {
          if (change.kind === 'gradient') await send(made, change)
          else await stepOf(made, change.adam)
        }
        return made
      } catch (error) {
        // What was half brought back is of no use, and takes a place.
        if (made) fleet.later(server.release(made))
        if (!isUncertain(error) || tries === RECOVERIES) throw error
      }
    }
  }

  function current(): Promise<RemoteModel> {
    if (model) return Promise.resolve(model)
    reviving ??= revive()
      .then((made) => {
        model = made
        return made
      })
      .finally(() => {
        reviving = null
      })
    return reviving
  }

  function abandon(old: RemoteModel): void {
    if (model !== old) return
    model = null
    sampler = null
    fleet.later(server.release(old))
  }

  async function surely<T>(work: (model: RemoteModel) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      const used = await current()
      try {
        return await work(used)
      } catch (error) {
        const isLost = error instanceof LostError
        if (!isUncertain(error) && !isLost) throw error
        abandon(used)
        if (isLost || tries > RECOVERIES) throw error
      }
    }
  }

  async function keep(): Promise<string> {
    if (checkpoint === null || changes.length > 0) {
      const path = await surely((used) => saveWeights(used, 'step'))
      if (checkpoint !== null) retire(checkpoint)
      checkpoint = path
      changes = changes.slice(changes.findLastIndex(({ kind }) => kind === 'step') + 1)
    }
    return checkpoint
  }

  return {
    server: () => server,
    changed: () => changes.length > 0,
    current,
    surely,
    abandon,
    keep,
    withSampler: (work) =>
      surely(async (used) => {
        sampler ??= server.sampler(used)
        const id = sampler
        try {
          return await work(await id)
        } catch (error) {
          if (sampler === id) sampler = null
          throw error
        }
      }),
    async keepStep() {
      if (changes.some(({ kind }) => kind === 'step')) await keep()
    },
    async addGradient(input) {
      const change: Gradient = { kind: 'gradient', input, scale: 1 }
      const answer = await surely((used) => send(used, change))
      changes.push(change)
      return outputsOf(input.data, answer, server.client.url)
    },
    async step(adam, scaleOf, refusal) {
      const norm = gradNormOf((await surely((used) => stepOf(used, adam))).metrics)
      const scale = scaleOf(norm)
      if (scale === null) {
        // The step is made and spoilt the weights: back to where they were, without these gradients.
        changes = []
        if (model) abandon(model)
        throw refusal(norm)
      }
      if (scale !== 1) {
        changes = changes.map((change) => (change.kind === 'gradient' ? { ...change, scale } : change))
        if (model) abandon(model)
        await surely((used) => stepOf(used, adam))
      }
      changes.push({ kind: 'step', adam })
      sampler = null
      return norm
    },
    async restore(path, url) {
      if (model) abandon(model)
      // A checkpoint is on the server that made it. At an address that is not among ours, ours may have its store.
      server = fleet.move(url, server) ?? server
      checkpoint = path
      changes = []
      await server.watched(current)
    },
    async release() {
      if (model) await server.release(model)
      fleet.leave(server)
    },
  }
}
