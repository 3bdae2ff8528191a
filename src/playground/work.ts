/**
 * What the worker does for the page (see host.ts): plays boards on the untrained model or on what a run has trained so far,
 * runs experiments, and reads their records. Its files are the platform's; it knows no page.
 */
import { zipSync } from 'fflate'
import { type Played, play } from '../board/play.ts'
import { policyWriter, type Rollout } from '../board/policy-writer.ts'
import { textOf } from '../bytes.ts'
import { UserError } from '../errors.ts'
import type { Arm } from '../experiment/arms.ts'
import { defineExperiment, type Experiment } from '../experiment/config.ts'
import { type Engines, findModels, openEngines } from '../experiment/engine.ts'
import { evaluationPlay, type JobAuthor, openAuthors } from '../experiment/job.ts'
import { runExperiment } from '../experiment/run.ts'
import { lstat, readdir, readFile, rm } from '../platform/files.ts'
import { join } from '../platform/path.ts'
import { seedOf } from '../random.ts'
import { readProgress } from '../record/job-log.ts'
import { writeReport } from '../report/html.ts'
import { effectsOf } from '../train/influence.ts'
import { boardUpdate, eventOf, follow } from '../view/follow.ts'
import type { RunIndex } from '../view/run-index.ts'
import { choicesOf } from './experiment.ts'
import type { Host, PlayAsk, PolicyChoice } from './host.ts'
import { sideBySide } from './order.ts'
import { armNames, type Settings, settingsLink } from './settings.ts'

/** Boards that are remembered, to be played again with other notes. */
const REMEMBERED = 8

/** The methods, over runs in the folder `runs`. */
export function hostOver(runs: string): Host {
  const engines = openOnce()
  const boards = new Map<number, { played: Played<Rollout>; ask: PlayAsk }>()
  const followed = new Map<string, () => Promise<RunIndex>>()
  let played = 0

  const folderOf = (settings: Settings) => join(runs, runName(settings))
  /** A run's record as it is now. */
  const reading = (settings: Settings): Promise<RunIndex> => {
    const folder = folderOf(settings)
    const refresh = followed.get(folder) ?? follow(folder)
    followed.set(folder, refresh)
    return refresh()
  }

  return {
    async open() {
      const { info } = await (await engines()).of(builtIn().model)
      return { model: 'small', parameters: info.parameters, device: info.device }
    },

    async play(ask, tell, signal) {
      const its = builtIn(ask.settings)
      const { protocol } = its.arms[ask.arm]
      const remembered = ask.edited && boards.get(ask.edited.board)
      if (ask.edited && !remembered) throw new UserError('That board is forgotten: play the problem again.')
      return withAuthors(ask, async (authors) => {
        const { readTokens } = its.board
        const writer = policyWriter(authors, { readTokens, signal })
        const { problem } = ask
        const given = remembered && { played: edited(remembered.played, ask.edited!.texts, its), from: 0 }
        const options = { ...evaluationPlay(its, protocol), seed: ['playground', ask.draw] }
        const [one] = (await play(writer, [{ problem, given }], { ...options, onText: tell })).played
        boards.set(++played, { played: one, ask })
        boards.delete(played - REMEMBERED)
        return { board: played, episode: one.episode }
      })
    },

    async influence({ board }) {
      const remembered = boards.get(board)
      if (!remembered) return []
      const { played: one, ask } = remembered
      const its = builtIn(ask.settings)
      const { protocol } = its.arms[ask.arm]
      return withAuthors(ask, async (authors) => {
        const { sampling } = evaluationPlay(its, protocol)
        const [effects] = await effectsOf([one], {
          authors,
          protocol,
          sampling,
          readTokens: its.board.readTokens,
        })
        return effects
      })
    },

    async run(settings, tell, signal) {
      const live = async () => tell({ live: eventOf(await reading(settings)) })
      // One after another, and not more often than the page can draw.
      let told: Promise<void> | null = null
      await runExperiment(builtIn(settings), {
        out: folderOf(settings),
        jobs: armNames.length,
        order: sideBySide,
        signal,
        onEvent(event) {
          if (event.type === 'tokens') return
          tell({ event })
          told ??= live().finally(() => {
            told = null
          })
        },
      })
      await told
      return eventOf(await reading(settings))
    },

    async kept(settings) {
      const found = await lstat(join(folderOf(settings), 'experiment.json')).catch(() => null)
      return found === null ? null : eventOf(await reading(settings))
    },

    async boards({ settings, ...has }) {
      return boardUpdate(await reading(settings), has)
    },

    async texts({ settings, boards: numbers }) {
      return (await reading(settings)).texts(numbers)
    },

    async archive(settings) {
      const name = runName(settings)
      const files = await filesUnder(folderOf(settings))
      return zipSync(
        Object.fromEntries(Object.entries(files).map(([path, bytes]) => [`${name}/${path}`, bytes])),
      )
    },

    report: async (settings) => textOf(await readFile(await writeReport(folderOf(settings)))),

    async forget(settings) {
      followed.delete(folderOf(settings))
      await rm(folderOf(settings), { recursive: true, force: true })
      return null
    },
  }

  /** Opens what writes for a board, lets it be used, and frees it. */
  async function withAuthors<T>(
    { settings, arm, policy }: Pick<PlayAsk, 'settings' | 'arm' | 'policy'>,
    use: (authors: ReadonlyMap<string, JobAuthor>) => Promise<T>,
  ): Promise<T> {
    const its: Arm = builtIn(settings).arms[arm]
    const checkpoint = await checkpointOf(settings, policy)
    const authors = await openAuthors(
      await engines(),
      its,
      checkpoint === null ? null : policy!.seed,
      checkpoint,
    )
    try {
      return await use(authors)
    } finally {
      for (const { policy: one } of authors.values()) one.dispose()
    }
  }

  /** Where what an arm has learned so far lies; null before its first step. */
  async function checkpointOf(settings: Settings, policy: PolicyChoice): Promise<string | null> {
    if (policy === null) return null
    const job = join(folderOf(settings), `${policy.arm}-s${policy.seed}`)
    const steps = (await readProgress(job))?.steps ?? 0
    return steps === 0 ? null : join(job, `checkpoint-${steps}`)
  }
}

const builtIn = (settings?: Settings): Experiment => defineExperiment(settings ? choicesOf(settings) : {})

/** The engines of the built-in model, opened once for all boards and kept open. */
function openOnce(): () => Promise<Engines> {
  let opened: Promise<Engines> | undefined
  return () => {
    opened ??= findModels(builtIn()).then((found) => openEngines(builtIn(), found))
    return opened
  }
}

/** A run's folder: its world, and a number of all that decides its jobs. Seeds may be added to it. */
function runName({ world, steps, holdout, arms }: Settings): string {
  const decides = settingsLink({ world, steps, holdout, arms, seeds: [0], problem: { world, index: 0 } })
  return `${world}-${seedOf(decides).toString(16)}`
}

/** A board with other texts in place of some notes, as the verifier reads them. */
function edited(
  played: Played<Rollout>,
  texts: NonNullable<PlayAsk['edited']>['texts'],
  { grader }: Experiment,
): Played<Rollout> {
  const { problem, episode } = played
  const rounds = episode.rounds.map((posts, round) =>
    posts.map((post) => {
      const changed = texts.find(({ note: [r, seat] }) => r === round && seat === post.seat)
      return changed
        ? { ...post, ...grader.grade(changed.text, problem.gold), text: changed.text, cut: false }
        : post
    }),
  )
  return { ...played, episode: { ...episode, rounds } }
}

/** Every file under a folder but the hidden ones, by its path inside it. */
async function filesUnder(folder: string, prefix = ''): Promise<Record<string, Uint8Array>> {
  const files: Record<string, Uint8Array> = {}
  for (const name of await readdir(folder)) {
    if (name.startsWith('.')) continue
    const path = join(folder, name)
    if ((await lstat(path)).isDirectory()) Object.assign(files, await filesUnder(path, `${prefix}${name}/`))
    else files[`${prefix}${name}`] = await readFile(path)
  }
  return files
}
