/**
 * Plays the rounds without training: one model, one board or several, counted. Asks an engine, or an endpoint, whose
 * answers it keeps in a file; writes nothing else.
 */
import { join } from 'node:path'
import { z } from 'zod'
import { whatReadersDid } from '../board/readers.ts'
import { playRounds, playWith } from '../board/rounds.ts'
import type { Board, Reads } from '../board/types.ts'
import { openEndpoint } from '../endpoint/chat.ts'
import { openEndpointWriter } from '../endpoint/writer.ts'
import { readJsonFile } from '../files.ts'
import { type LocateOptions, locateModel } from '../hub/model.ts'
import { bootstrapMean, passAt } from '../stats/index.ts'
import type { Problem } from '../tasks/types.ts'
import type { Experiment } from './config.ts'
import { fingerprint, openEngine, versions } from './engine.ts'
import { roundSettings, roundsOf } from './job.ts'
import { checkPrompts } from './preflight.ts'

export interface EvaluationOptions {
  /** The boards to play, each with the same notes: these are drawn from the same streams. */
  reads: readonly Reads[]
  /** A folder with a trained adapter in PEFT's layout; the base itself when left out. */
  adapter?: string
  /** Where the experiment's model is served; computed here when left out. */
  endpoint?: EndpointChoice
  seed: number
  /** Told after each portion of problems, of all boards together. */
  onProblems?: (done: number, of: number) => void
  onDownload?: LocateOptions['onDownload']
  onNotice?: LocateOptions['onNotice']
  /** Stops when aborted. */
  signal?: AbortSignal
}

export interface EndpointChoice {
  /** An OpenAI-compatible server's address up to `/v1`. */
  url: string
  key?: string
  /** Requests at a time. */
  concurrency: number
  /** Tokens of prompts and completions that may be paid for; without limit when left out. */
  budget?: number
  /** The file that keeps every answer: a later evaluation pays only for those that it lacks. */
  answers: string
}

/** pass@1, pass@k and what readers did, on the experiment's held-out problems, under each board. */
export async function evaluateModel(experiment: Experiment, options: EvaluationOptions) {
  const { holdout } = await experiment.task.load()
  const player = options.endpoint
    ? await endpointPlayer(experiment, options, options.endpoint)
    : await enginePlayer(experiment, options, holdout)
  try {
    const whole = holdout.length * options.reads.length
    let done = 0
    const boards: { reads: string; played: Board[] }[] = []
    for (const reads of options.reads) {
      const played: Board[] = []
      while (played.length < holdout.length) {
        options.signal?.throwIfAborted()
        const problems = holdout.slice(played.length, played.length + experiment.evaluation.problemsAtOnce)
        played.push(...(await player.play(problems, reads)))
        done += problems.length
        options.onProblems?.(done, whole)
      }
      boards.push({ reads: reads.name, played })
    }
    return {
      schemaVersion: 1,
      ...player.record(),
      task: { name: experiment.task.name, ...experiment.task.config },
      seed: options.seed,
      problems: holdout.length,
      boards: boards.map(({ reads, played }) => {
        const { k, passAt1, passAtK } = passAt(
          played.map(({ replies }) => replies.map((reply) => reply.correct)),
        )
        return {
          reads,
          k,
          passAt1: passAt1.value,
          ci95: passAt1.ci95,
          passAtK: passAtK.value,
          counts: whatReadersDid(played),
        }
      }),
      difference: boards.length === 2 ? differenceOf(boards[0], boards[1]) : null,
      versions: versions(experiment),
    }
  } finally {
    await player.close()
  }
}

export type Evaluation = Awaited<ReturnType<typeof evaluateModel>>

/** pass@1 under the second board less that under the first, paired by problem. */
function differenceOf(first: { reads: string; played: Board[] }, second: typeof first) {
  const scores = ({ played }: typeof first) =>
    played.map(({ replies }) => replies.filter((reply) => reply.correct).length / replies.length)
  const before = scores(first)
  const differences = scores(second).map((score, i) => score - before[i])
  return {
    of: [second.reads, first.reads] as const,
    passAt1: differences.reduce((sum, difference) => sum + difference, 0) / differences.length,
    ci95: bootstrapMean(differences),
  }
}

interface Player {
  play(problems: readonly Problem[], reads: Reads): Promise<Board[]>
  /** What played, for the record. */
  record(): {
    model: { name: string; sha256: string | null }
    adapter: string | null
    endpoint: { url: string; answers: string; tokens: number; requests: number; kept: number } | null
  }
  close(): Promise<void>
}

async function enginePlayer(
  experiment: Experiment,
  { adapter, seed, reads, signal, onDownload, onNotice }: EvaluationOptions,
  holdout: Problem[],
): Promise<Player> {
  const located = await locateModel(experiment.model, { onDownload, onNotice, retries: { signal } })
  const sha256 = await fingerprint(located.folder)
  const engine = await openEngine(experiment, located, onNotice)
  try {
    checkPrompts(experiment, engine, { train: [], holdout, dropped: 0 }, reads)
    const lora = adapter === undefined ? undefined : await adapterShape(adapter)
    const policy = await engine.createPolicy({ lora: lora && { ...lora, seed: 0 } })
    if (adapter !== undefined) await policy.load(adapter)
    return {
      async play(problems, reads) {
        const { played } = await playRounds(policy, engine.tokenizer, problems, {
          ...roundsOf({ engine, experiment, onEvent: () => {}, signal }, reads, 'evaluation'),
          seed: ['evaluation', seed],
        })
        return played.map(({ board }) => board)
      },
      record: () => ({
        model: { name: experiment.model, sha256 },
        adapter: adapter ?? null,
        endpoint: null,
      }),
      close: () => engine.close(),
    }
  } catch (error) {
    await engine.close()
    throw error
  }
}

async function endpointPlayer(
  experiment: Experiment,
  { seed, signal }: EvaluationOptions,
  { url, key, ...rest }: EndpointChoice,
): Promise<Player> {
  const { model } = experiment
  const writer = await openEndpointWriter({
    endpoint: openEndpoint({ url, model, key }),
    identity: [url, model],
    signal,
    ...rest,
  })
  return {
    async play(problems, reads) {
      const { played } = await playWith(writer.write, problems, {
        ...roundSettings(experiment, reads, 'evaluation'),
        seed: ['evaluation', seed],
      })
      return played.map(({ board }) => board)
    },
    record: () => ({
      model: { name: model, sha256: null },
      adapter: null,
      endpoint: { url, answers: rest.answers, ...writer.spent() },
    }),
    close: () => writer.close(),
  }
}

/** Rank and alpha of an adapter, which a policy must be made with before the adapter can be loaded. */
function adapterShape(folder: string): Promise<{ rank: number; alpha: number }> {
  const schema = z
    .looseObject({ r: z.number().int().positive(), lora_alpha: z.number().positive() })
    .transform(({ r, lora_alpha }) => ({ rank: r, alpha: lora_alpha }))
  return readJsonFile(join(folder, 'adapter_config.json'), schema)
}
