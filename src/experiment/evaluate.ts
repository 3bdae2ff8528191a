/**
 * Plays the rounds without training: one model, one board or several, counted. Asks an engine, or an endpoint, and keeps
 * what they write in a file; writes nothing else.
 */
import { whatReadersDid } from '../board/readers.ts'
import { playWith, policyWriter, type Writer } from '../board/rounds.ts'
import type { Board, Reads } from '../board/types.ts'
import { openEndpoint } from '../endpoint/chat.ts'
import { openEndpointWriter } from '../endpoint/writer.ts'
import { adapterShape } from '../engine/checkpoint/adapter.ts'
import { adapterFingerprint } from '../engine/checkpoint/fingerprint.ts'
import type { LocateOptions } from '../hub/model.ts'
import { bootstrapMean, passAt } from '../stats/index.ts'
import type { Problem } from '../tasks/types.ts'
import type { Experiment } from './config.ts'
import { decidingVersions, findModel, openEngine, versions } from './engine.ts'
import { readLimit, roundSettings } from './job.ts'
import { openKeptTexts } from './kept-texts.ts'
import { checkPrompts } from './preflight.ts'

export interface EvaluationOptions {
  /** The boards to play, each with the same notes: these are drawn from the same streams. */
  reads: readonly Reads[]
  /** A folder with a trained adapter in PEFT's layout; the base itself when left out. */
  adapter?: string
  /** Where the experiment's model is served; computed here when left out. */
  endpoint?: EndpointChoice
  /**
   * The file that keeps each round of texts computed here: a later evaluation computes only those that it lacks, and
   * comes to the same result. Nothing is kept when left out.
   */
  texts?: string
  seed: number
  onProgress?: (progress: EvaluationProgress) => void
  onDownload?: LocateOptions['onDownload']
  onNotice?: LocateOptions['onNotice']
  /** Stops when aborted. */
  signal?: AbortSignal
}

/** How far an evaluation is, of all boards together. */
export interface EvaluationProgress {
  /** Problems played, and how many there are. */
  problems: number
  of: number
  /** Tokens written since the last time that this was told. */
  newTokens: number
  /** Tokens still to write: expected by the length of the texts so far, or before there are any, at most. */
  tokensLeft: number
  isBound: boolean
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
  const of = holdout.length * options.reads.length
  const { copies, noteTokens, replyTokens } = experiment.board
  // Notes are the same for every board, and written for the first alone.
  const expected = expectation(copies * (holdout.length * noteTokens + of * replyTokens))
  let problems = 0
  const tell = (newTokens: number) => {
    expected.wrote(newTokens)
    options.onProgress?.({ problems, of, newTokens, ...expected.left() })
  }
  const player = options.endpoint
    ? await endpointPlayer(experiment, options, options.endpoint, tell)
    : await enginePlayer(experiment, options, holdout, tell)
  const boards: { reads: string; played: Board[] }[] = []
  const write: Writer<unknown> = async (asks, sampling) => {
    const written = await player.write(asks, sampling)
    const texts = written.flat()
    if (boards.length === 0 || asks.some(({ notes }) => notes !== null)) {
      expected.finished(
        texts.length * sampling.maxTokens,
        texts.reduce((sum, { tokens }) => sum + tokens, 0),
      )
    }
    return written
  }
  try {
    for (const reads of options.reads) {
      const played: Board[] = []
      while (played.length < holdout.length) {
        options.signal?.throwIfAborted()
        const some = holdout.slice(played.length, played.length + experiment.evaluation.problemsAtOnce)
        const rounds = await playWith(write, some, {
          ...roundSettings(experiment, reads, 'evaluation'),
          seed: ['evaluation', options.seed],
        })
        played.push(...rounds.played.map(({ board }) => board))
        problems += some.length
        tell(0)
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

/** Expects of the texts to come what those so far were: the same share of the tokens that they may take, `limit` in all. */
function expectation(limit: number) {
  const done = { limit: 0, tokens: 0 }
  /** Tokens of the round under way. */
  let written = 0
  return {
    wrote(tokens: number) {
      written += tokens
    },
    finished(roundLimit: number, tokens: number) {
      done.limit += roundLimit
      done.tokens += tokens
      written = 0
    },
    left() {
      const share = done.limit === 0 ? 1 : done.tokens / done.limit
      const tokensLeft = Math.max(0, share * (limit - done.limit) - written)
      return { tokensLeft, isBound: done.limit === 0 }
    },
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
  write: Writer<unknown>
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
  { adapter, reads, texts, signal, onDownload, onNotice }: EvaluationOptions,
  holdout: Problem[],
  onTokens: (newTokens: number) => void,
): Promise<Player> {
  const found = await findModel(experiment, { onDownload, onNotice, retries: { signal } })
  const { sha256 } = found
  const engine = await openEngine(experiment, found, onNotice)
  try {
    checkPrompts(experiment, engine, { train: [], holdout, dropped: 0 }, reads)
    const lora = adapter === undefined ? undefined : await adapterShape(adapter)
    const policy = await engine.createPolicy({ lora: lora && { ...lora, seed: 0 } })
    if (adapter !== undefined) await policy.load(adapter)
    const readTokens = readLimit(experiment, engine)
    // Whatever grades them, texts are the same.
    const { grader: _, ...textVersions } = decidingVersions(experiment)
    const identity = [
      sha256,
      adapter === undefined ? null : await adapterFingerprint(adapter),
      experiment.engine,
      engine.info.device,
      textVersions,
      readTokens,
    ]
    const kept = await openKeptTexts(
      policyWriter(policy, engine.tokenizer, { readTokens, onTokens, signal }),
      identity,
      texts ?? null,
    )
    return {
      write: kept.write,
      record: () => ({
        model: { name: experiment.model, sha256 },
        adapter: adapter ?? null,
        endpoint: null,
      }),
      async close() {
        await kept.close()
        await engine.close()
      },
    }
  } catch (error) {
    await engine.close()
    throw error
  }
}

async function endpointPlayer(
  experiment: Experiment,
  { signal }: EvaluationOptions,
  { url, key, ...rest }: EndpointChoice,
  onTokens: (newTokens: number) => void,
): Promise<Player> {
  const { model } = experiment
  const writer = await openEndpointWriter({
    endpoint: openEndpoint({ url, model, key }),
    identity: [url, model],
    onTokens,
    signal,
    ...rest,
  })
  return {
    write: writer.write,
    record: () => ({
      model: { name: model, sha256: null },
      adapter: null,
      endpoint: { url, answers: rest.answers, ...writer.spent() },
    }),
    close: () => writer.close(),
  }
}
