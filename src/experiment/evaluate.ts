/**
 * Plays the rounds without training: one model, one board or several, counted. Asks an engine, or an endpoint, and keeps
 * what they write in a file; writes nothing else.
 */

import { countEpisodes, finalScores } from '../board/counts.ts'
import { play, type Text, type Writer } from '../board/play.ts'
import { policyWriter } from '../board/policy-writer.ts'
import type { Protocol } from '../board/protocol.ts'
import type { Episode } from '../board/types.ts'
import { openEndpoint } from '../endpoint/chat.ts'
import { type EndpointWriter, openEndpointWriter } from '../endpoint/writer.ts'
import { adapterFingerprint } from '../engine/checkpoint/fingerprint.ts'
import type { LocateOptions } from '../hub/locate.ts'
import { bootstrapMean, type Interval, passAt } from '../stats/index.ts'
import type { Problem } from '../tasks/types.ts'
import type { Arm } from './arms.ts'
import type { Experiment } from './config.ts'
import { decidingVersions, findModels, openEngines, versions } from './engine.ts'
import { evaluationPlay, openAuthors } from './job.ts'
import { openKeptTexts } from './kept-texts.ts'
import { checkPrompts } from './preflight.ts'

export interface EvaluationOptions {
  /** What to play: protocols with their policies, untrained. Where they ask alike they draw alike. */
  arms: readonly Pick<Arm, 'protocol' | 'policies' | 'train'>[]
  /** Where the policies are served, by the names that seats give; computed here when left out. */
  endpoints?: Readonly<Record<string, EndpointChoice>>
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
  /** The model's name there. */
  model: string
  key?: string
  /** Requests at a time. */
  concurrency: number
  /** Tokens of prompts and completions that may be paid for; without limit when left out. */
  budget?: number
  /** The file that keeps every answer: a later evaluation pays only for those that it lacks. */
  answers: string
}

/** pass@1, pass@k and what readers did, on the experiment's held-out problems, under each protocol. */
export async function evaluateModel(experiment: Experiment, options: EvaluationOptions) {
  const { arms, seed, signal } = options
  const { holdout } = await experiment.task.load()
  const of = holdout.length * arms.length
  const limits = arms.flatMap(({ protocol }) =>
    protocol.rounds.map(({ speakers, maxTokens }) => speakers.length * maxTokens),
  )
  const expected = expectation(holdout.length * limits.reduce((sum, limit) => sum + limit, 0))
  let problems = 0
  const tell = (newTokens: number) => {
    expected.wrote(newTokens)
    options.onProgress?.({ problems, of, newTokens, ...expected.left() })
  }
  const player = options.endpoints
    ? await endpointPlayer(experiment, options, options.endpoints, tell)
    : await enginePlayer(experiment, options, holdout, tell)
  const boards: { protocol: Protocol; played: Episode[] }[] = []
  try {
    for (const arm of arms) {
      const writer = await player.writer(arm)
      const write: Writer<unknown> = async (asks, sampling) => {
        const texts = await writer(asks, sampling)
        const written = texts.flat()
        expected.finished(
          written.length * sampling.maxTokens,
          written.reduce((sum, { tokens }) => sum + tokens, 0),
        )
        return texts
      }
      const played: Episode[] = []
      while (played.length < holdout.length) {
        signal?.throwIfAborted()
        const some = holdout.slice(played.length, played.length + experiment.evaluation.problemsAtOnce)
        const rounds = await play(
          write,
          some.map((problem) => ({ problem })),
          { ...evaluationPlay(experiment, arm.protocol), seed: ['evaluation', seed] },
        )
        played.push(...rounds.played.map(({ episode }) => episode))
        problems += some.length
        tell(0)
      }
      boards.push({ protocol: arm.protocol, played })
    }
    return {
      schemaVersion: 2,
      ...player.record(),
      task: { name: experiment.task.name, ...experiment.task.config },
      seed,
      problems: holdout.length,
      protocols: boards.map(({ protocol, played }) => {
        const { k, passAt1, passAtK } = passAt(scoresOf(protocol, played))
        return {
          protocol: protocol.name,
          k,
          passAt1: passAt1.value,
          ci95: passAt1.ci95,
          passAtK: passAtK.value,
          counts: countEpisodes(played),
        }
      }),
      /** Of each further protocol less the first. */
      differences: boards.slice(1).map((board) => differenceOf(boards[0], board)),
      versions: versions(experiment),
    }
  } finally {
    await player.close()
  }
}

const scoresOf = ({ final }: Protocol, played: readonly Episode[]) =>
  played.map((episode) => finalScores(episode, final))

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

interface PlayedProtocol {
  protocol: Protocol
  played: readonly Episode[]
}

/** pass@1 under the second protocol less that under the first, paired by problem. */
function differenceOf(
  first: PlayedProtocol,
  second: PlayedProtocol,
): {
  of: readonly [string, string]
  passAt1: number
  ci95: Interval
} {
  const means = ({ protocol, played }: PlayedProtocol) =>
    scoresOf(protocol, played).map((scores) => scores.reduce((sum, score) => sum + score, 0) / scores.length)
  const before = means(first)
  const differences = means(second).map((score, i) => score - before[i])
  return {
    of: [second.protocol.name, first.protocol.name],
    passAt1: differences.reduce((sum, difference) => sum + difference, 0) / differences.length,
    ci95: bootstrapMean(differences),
  }
}

type Played = EvaluationOptions['arms'][number]

interface Player {
  writer(arm: Played): Promise<Writer<unknown>>
  /** What played, for the record. */
  record(): {
    models: { policy: string; model: string; sha256: string | null; adapter: string | null }[]
    endpoints: ({ url: string; model: string; answers: string } & ReturnType<EndpointWriter['spent']>)[]
  }
  close(): Promise<void>
}

async function enginePlayer(
  experiment: Experiment,
  { arms, texts, signal, onDownload, onNotice }: EvaluationOptions,
  holdout: Problem[],
  onTokens: (newTokens: number) => void,
): Promise<Player> {
  const playing = {
    ...experiment,
    arms: Object.fromEntries(arms.map((arm, i) => [`${i}`, arm])),
  } as Experiment
  const found = await findModels(playing, { onDownload, onNotice, retries: { signal } })
  const engines = openEngines(playing, found, onNotice)
  const close: (() => Promise<void>)[] = []
  const models = arms.flatMap(({ policies }) =>
    Object.entries(policies).map(([policy, { model, adapter }]) => ({
      policy,
      model,
      sha256: found.get(model)!.sha256,
      adapter,
    })),
  )
  const different = [...new Map(models.map((one) => [JSON.stringify(one), one])).values()]
  const { readTokens } = experiment.board
  try {
    await checkPrompts(playing, engines, { train: [], holdout, dropped: 0 })
    // Whatever grades them, texts are the same.
    const { grader: _, ...textVersions } = decidingVersions(experiment)
    /** Texts that are kept in memory alone are shared between the protocols of one call. */
    const kept = await openKeptTexts(texts ?? null)
    close.push(() => kept.close())
    return {
      async writer(arm) {
        const authors = await openAuthors(engines, arm, null)
        const starts = await Promise.all(
          Object.entries(arm.policies).map(async ([name, { model, adapter }]) => [
            name,
            found.get(model)!.sha256,
            adapter === null ? null : await adapterFingerprint(adapter),
            (await engines.of(model)).info.device,
          ]),
        )
        close.push(async () => {
          for (const { policy } of authors.values()) policy.dispose()
        })
        const identity = [starts, experiment.engine, experiment.template, textVersions, readTokens]
        return kept.writer(policyWriter(authors, { readTokens, onTokens, signal }), identity)
      },
      record: () => ({ models: different, endpoints: [] }),
      async close() {
        for (const one of close.splice(0)) await one()
        await engines.close()
      },
    }
  } catch (error) {
    for (const one of close.splice(0)) await one()
    await engines.close()
    throw error
  }
}

async function endpointPlayer(
  { template }: Experiment,
  { signal, onNotice }: EvaluationOptions,
  endpoints: Readonly<Record<string, EndpointChoice>>,
  onTokens: (newTokens: number) => void,
): Promise<Player> {
  const opened = await Promise.all(
    Object.entries(endpoints).map(async ([policy, { url, model, key, ...rest }]) => {
      const endpoint = openEndpoint({ url, model, key, template, onNotice })
      const identity = [endpoint.address, model, JSON.stringify(template)]
      const writer = await openEndpointWriter({ endpoint, identity, onTokens, signal, ...rest })
      return { policy, model, url: endpoint.address, answers: rest.answers, writer }
    }),
  )
  return {
    writer: async () => byPolicy(new Map(opened.map(({ policy, writer }) => [policy, writer.write]))),
    record: () => ({
      models: opened.map(({ policy, model }) => ({ policy, model, sha256: null, adapter: null })),
      endpoints: opened.map(({ url, model, answers, writer }) => ({
        url,
        model,
        answers,
        ...writer.spent(),
      })),
    }),
    close: async () => {
      for (const { writer } of opened) await writer.close()
    },
  }
}

/** Hands each ask to the writer of its policy. */
function byPolicy<Trace>(writers: ReadonlyMap<string, Writer<Trace>>): Writer<Trace> {
  return async (asks, sampling) => {
    const texts: Text<Trace>[][] = []
    for (const [policy, write] of writers) {
      const its = asks.flatMap((ask, a) => (ask.policy === policy ? [a] : []))
      if (its.length === 0) continue
      const written = await write(
        its.map((a) => asks[a]),
        sampling,
      )
      its.forEach((a, i) => {
        texts[a] = written[i]
      })
    }
    return texts
  }
}
