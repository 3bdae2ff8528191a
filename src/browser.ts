/**
 * message-board/browser: the library in a page. Everything computes in the visitor's browser, and what a run keeps lies in
 * the browser's own files: those of the page's origin (OPFS), or where a browser gives none, the thread's memory. Paths are
 * plain, `/runs/mine`; nothing leaves the machine. The same calls work in Node, on its file system.
 *
 * Call it from a dedicated worker of your own, so that the page stays smooth: lanes are workers of one thread each, which it
 * starts itself, but what is between them runs on the thread that calls. No headers of isolation are needed.
 *
 *   await installPolicy('/policy/')                        // the built-in policy's files, from the page's origin
 *   const engine = await openEngine({ lanes: 2 })
 *   const experiment = defineExperiment({ task: insight({ train: 512, holdout: 60 }), seeds: [17], engine: { threads: 2 } })
 *   const table = { experiment, arm: 'recipe', seed: 1 }
 *   const author = await openAuthor(engine)                // untrained; with a checkpoint's folder, as it was trained
 *   const played = await playProblem(author, problem, { ...table, onText })
 *   const other = await replayEdited(author, played, { note: [0, 2], text: 'It is 7.' }, { ...table, onText })
 *   const effects = await noteEffects(author, other, table)
 *   const results = await runExperiment(experiment, { out: '/runs/mine', engine, onEvent, signal })
 *   const run = await openRun('/runs/mine', { live: true }) // view(), columns(), texts(); refresh() reads what is new
 *   const files = await exportFolder('/runs/mine')         // the run folder that `message-board report` reads
 *
 * Aborting the signal pauses a run (the promise rejects with the signal's reason). The same call goes on from the last step
 * that was kept: after an abort, a reload, and the end of its worker or tab. With more seeds it pays for the new ones alone.
 */

import type { Effect } from './board/influence.ts'
import { type GrowingText, type Played, play } from './board/play.ts'
import { type Author, policyWriter, type Rollout } from './board/policy-writer.ts'
import type { Ref } from './board/types.ts'
import { concat } from './bytes.ts'
import { adapterShape } from './engine/checkpoint/adapter.ts'
import type { Engine } from './engine/contract.ts'
import type { Device } from './engine/onnx/devices.ts'
import { openOnnxEngine } from './engine/onnx/index.ts'
import { UserError } from './errors.ts'
import { type Experiment, noSuchArm } from './experiment/config.ts'
import { evaluationPlay } from './experiment/job.ts'
import { type RunOptions, runExperiment as runIntoFolder } from './experiment/run.ts'
import { isAbsence, makeFolder, writeFileAtomic } from './files.ts'
import { entries, readFile } from './platform/files.ts'
import { builtInModel, cores } from './platform/machine.ts'
import { join } from './platform/path.ts'
import type { Results } from './record/results.ts'
import type { Problem } from './tasks/types.ts'
import { effectsOf, traceOf } from './train/influence.ts'

export { alone, board, debate, proposers, revisers } from './board/protocols.ts'
export { chain, everything, named, own, randomOf, ring, type Sight, shared, star } from './board/sights.ts'
export type { Episode, Post } from './board/types.ts'
export { UserError } from './errors.ts'
export { defineExperiment, type ExperimentChoices } from './experiment/config.ts'
export type { RunEvent } from './experiment/job.ts'
export { remove } from './files.ts'
export { mathGrader } from './grade/grader.ts'
export { setReportPage } from './report/built.ts'
export { writeReport } from './report/html.ts'
export { post } from './report/post.ts'
export { clues } from './tasks/clues.ts'
export { insight } from './tasks/insight.ts'
export { carriesPart, partsOf, splitSentences } from './tasks/parts.ts'
export { wordProblems } from './tasks/word-problems.ts'
export { leaveOneOut, mix, ownAnswer, readersOf, readersOnly, subsets, team } from './train/credit/index.ts'
export { openRun, type RunIndex } from './view/run-index.ts'
export type { BoardColumns, BoardText, RunView } from './view/types.ts'
export type {
  Author,
  Effect,
  Engine,
  Experiment,
  GrowingText,
  Played,
  Problem,
  Ref,
  Results,
  Rollout,
  RunOptions,
}

/** The files of a policy. */
const policyFiles = ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.safetensors'] as const

/** Bytes of the files of a policy, by name; or the address of the folder that they lie in. */
export type PolicySource = string | URL | Readonly<Record<string, Uint8Array>>

export interface InstallOptions {
  /** Where the policy is put; the built-in policy's place unless told, which is that of experiments that name no model. */
  folder?: string
  /** Told while files come in. `total` is 0 where the server does not say how much will. */
  onDownload?: (progress: { name: string; done: number; total: number }) => void
  signal?: AbortSignal
}

/**
 * Puts a policy into the browser's files, in the place of an earlier one, and returns its folder. A server's own cache
 * decides what is fetched again.
 *
 * @throws UserError where a file cannot be had.
 */
export async function installPolicy(
  source: PolicySource,
  { folder = builtInModel, onDownload = () => {}, signal }: InstallOptions = {},
): Promise<string> {
  await makeFolder(folder)
  for (const name of policyFiles) {
    const bytes =
      typeof source === 'string' || source instanceof URL
        ? await fetched(new URL(name, absolute(source)), signal, (done, total) =>
            onDownload({ name, done, total }),
          )
        : source[name]
    if (bytes === undefined) {
      throw new UserError(`The policy has no ${name}: give all of ${policyFiles.join(', ')}.`)
    }
    await writeFileAtomic(join(folder, name), bytes)
  }
  return folder
}

/** In a browser an address may be that of a place beside the page's own. */
const absolute = (address: string | URL): URL =>
  new URL(address, (globalThis as { location?: { href: string } }).location?.href)

async function fetched(
  address: URL,
  signal: AbortSignal | undefined,
  onBytes: (done: number, total: number) => void,
): Promise<Uint8Array> {
  const answer = await fetch(address, { signal })
  if (!answer.ok || answer.body === null) {
    throw new UserError(
      `${address} is not to be had (status ${answer.status}): put the policy's files there.`,
    )
  }
  // What is sent compressed is longer than it says.
  const total = answer.headers.has('content-encoding') ? 0 : Number(answer.headers.get('content-length') ?? 0)
  const parts: Uint8Array[] = []
  let done = 0
  const reader = answer.body.getReader()
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value)
    done += part.value.length
    onBytes(done, total)
  }
  return concat(parts)
}

export interface EngineOptions {
  /** A policy's folder; the built-in one's unless told. */
  model?: string
  /** Workers that compute; all cores unless told. How work is split decides the last digits. */
  lanes?: number
  /**
   * Where it computes; by WebAssembly in a browser unless told. `webgpu` is the browser's GPU, once its numbers are those of
   * WebAssembly; `auto` takes the faster of both, measured, and tells `onNotice` how long each took, or what is amiss.
   */
  device?: Device | 'auto'
  onNotice?: (text: string) => void
}

/** Opens the engine on an installed policy. `close()` ends its workers. */
export async function openEngine({
  model = builtInModel,
  lanes = cores(),
  device,
  onNotice = () => {},
}: EngineOptions = {}): Promise<Engine> {
  const engine = await openOnnxEngine({ model, name: model, device, threads: lanes })
  for (const notice of engine.notices ?? []) onNotice(notice)
  return engine
}

/**
 * The policy that writes: untrained, or as a checkpoint's folder has it (`/runs/mine/recipe-s17/checkpoint-40`). Call
 * `author.policy.dispose()` when it is done.
 */
export async function openAuthor(engine: Engine, checkpoint?: string): Promise<Author> {
  const { tokenizer, contextLength } = engine
  if (checkpoint === undefined) return { policy: await engine.createPolicy(), tokenizer, contextLength }
  const policy = await engine.createPolicy({ lora: { ...(await adapterShape(checkpoint)), seed: 0 } })
  await policy.load(checkpoint)
  return { policy, tokenizer, contextLength }
}

/** Which table is laid: an arm's protocol, drawn and graded as the experiment's evaluations are. */
export interface TableOptions {
  experiment: Experiment
  arm: string
  /** Keys every draw: equal ones draw alike. */
  seed: number
  /** Told of each post as it grows, token by token. */
  onText?: (text: GrowingText) => void
  signal?: AbortSignal
}

/** Plays a problem with one author in every seat. `episode.rounds` are the posts, with what the verifier reads in them. */
export async function playProblem(
  author: Author,
  problem: Problem,
  options: TableOptions,
): Promise<Played<Rollout>> {
  const { written, how } = tableOf(author, options)
  const { played } = await play(written, [{ problem }], how)
  return played[0]
}

/** A post with another text in its place. */
export interface Edit {
  /** Round and seat of the post. */
  note: Ref
  text: string
}

/**
 * The same board with a post's text replaced by a person's: the rounds after it are played again with the same draws, so
 * that what differs is what the edit did.
 */
export async function replayEdited(
  author: Author,
  played: Played<Rollout>,
  { note: [round, seat], text }: Edit,
  options: TableOptions,
): Promise<Played<Rollout>> {
  const { problem, board: which, episode, traces } = played
  const at = episode.rounds[round]?.findIndex((post) => post.seat === seat) ?? -1
  if (at < 0) throw new UserError(`Nobody wrote in round ${round} at seat ${seat}: name a post of the board.`)
  const trace = traceOf(author, text, false)
  const post = {
    ...episode.rounds[round][at],
    text,
    tokens: trace.completion.length,
    ...options.experiment.grader.grade(text, problem.gold),
    cut: false,
  }
  const edited: Played<Rollout> = {
    ...played,
    episode: { ...episode, rounds: replaced(episode.rounds, round, at, post) },
    traces: replaced(traces, round, at, trace),
  }
  const { written, how } = tableOf(author, options)
  const again = await play(written, [{ problem, board: which, given: { played: edited, from: round } }], how)
  return again.played[0]
}

const replaced = <T>(rows: readonly (readonly T[])[], row: number, column: number, value: T): T[][] =>
  rows.map((each, r) => each.map((old, c) => (r === row && c === column ? value : old)))

/**
 * How much each post moved each one that read it: the difference that showing it makes to the reader's log-probability of
 * what it wrote, in nats.
 */
export async function noteEffects(
  author: Author,
  played: Played<Rollout>,
  options: Pick<TableOptions, 'experiment' | 'arm'>,
): Promise<Effect[]> {
  const { how, authors, readTokens } = tableOf(author, { ...options, seed: 0 })
  const { protocol, sampling } = how
  const [effects] = await effectsOf([played], { authors, protocol, sampling, readTokens })
  return effects
}

function tableOf(author: Author, { experiment, arm, seed, onText, signal }: TableOptions) {
  const its = experiment.arms[arm]
  if (its === undefined) throw noSuchArm(experiment, arm)
  const { protocol } = its
  const authors = new Map(protocol.seats.map(({ policy }) => [policy, author]))
  const { readTokens } = experiment.board
  const how = { ...evaluationPlay(experiment, protocol), seed: [seed], onText }
  return { written: policyWriter(authors, { readTokens, signal }), how, authors, readTokens }
}

/**
 * Runs what is left of an experiment into a folder of the browser's files, and returns its results. With `engine` it
 * computes there, and leaves it open; otherwise it opens one for itself.
 *
 * @throws UserError for what cannot be run, and the signal's reason once it is aborted.
 */
export async function runExperiment(
  experiment: Experiment,
  { engine, ...options }: RunOptions & { engine?: Engine },
): Promise<Results> {
  if (engine && experiment.engine.name === 'onnx') {
    // A run is recorded as its experiment names it.
    const { device } = experiment.engine
    const [its] = engine.info.device.split(/\W/)
    if (device !== 'auto' && device !== its) {
      throw new UserError(
        `The experiment names the device ${device}, and the engine computes on ${engine.info.device}: ` +
          `define it with engine: { device: '${its}' }, or 'auto'.`,
      )
    }
  }
  const shared = engine && { ...engine, close: async () => {} }
  return runIntoFolder(experiment, { ...options, ...(shared && { openEngine: async () => shared }) })
}

/** The files of a folder: their bytes by their paths in it. */
export async function exportFolder(folder: string): Promise<Map<string, Uint8Array>> {
  const files = new Map<string, Uint8Array>()
  const walk = async (inside: string) => {
    for (const entry of await entries(join(folder, inside))) {
      const path = inside === '' ? entry.name : `${inside}/${entry.name}`
      if (entry.isDirectory()) await walk(path)
      else files.set(path, await readFile(join(folder, path)))
    }
  }
  await walk('')
  return files
}

/** The names of the folders in one: of `/runs`, the runs that are there. */
export async function foldersIn(folder: string): Promise<string[]> {
  const found = await entries(folder).catch((error: unknown) => {
    if (isAbsence(error)) return []
    throw error
  })
  return found.filter((entry) => entry.isDirectory()).map(({ name }) => name)
}
