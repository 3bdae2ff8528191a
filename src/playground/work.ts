/**
 * What the worker does for the page (see host.ts), by message-board/browser: plays boards on the untrained model or on what
 * a run has trained so far, runs experiments, and reads their records.
 */
import { zipSync } from 'fflate'
import {
  type Author,
  defineExperiment,
  type Engine,
  type Experiment,
  exportFolder,
  installPolicy,
  noteEffects,
  openAuthor,
  openEngine,
  type Played,
  type PolicySource,
  playProblem,
  type Rollout,
  type RunIndex,
  remove,
  replayEdited,
  runExperiment,
  UserError,
  writeReport,
} from '../browser.ts'
import { textOf } from '../bytes.ts'
import { entries, readFile } from '../platform/files.ts'
import { join } from '../platform/path.ts'
import { seedOf } from '../random.ts'
import { readProgress } from '../record/job-log.ts'
import { boardUpdate, eventOf, follow } from '../view/follow.ts'
import { choicesOf } from './experiment.ts'
import type { Host, PlayAsk, PolicyChoice } from './host.ts'
import { sideBySide } from './order.ts'
import { armNames, type DeviceName, type Settings, settingsLink } from './settings.ts'

/** Boards that are remembered, to be played again with other notes. */
const REMEMBERED = 8

/** The methods, over runs in the folder `runs`, on the policy that is found at `policy`. */
export function hostOver(runs: string, policy: PolicySource): Host {
  let opened: Promise<Engine> | undefined
  /** By WebAssembly, opened once: for all boards, since a note is drawn sooner than a GPU is ready, and most runs. */
  const engine = (): Promise<Engine> => {
    opened ??= installPolicy(policy).then(() => openEngine())
    return opened
  }
  const chosen = new Map<DeviceName, Promise<{ its: Engine; computing: string }>>()
  /** What a run computes on, chosen once: by measuring, where the settings leave it open. */
  const runEngine = async (device: DeviceName): Promise<{ its: Engine; computing: string }> => {
    const boards = await engine()
    if (device === 'wasm') return { its: boards, computing: 'Computing by WebAssembly.' }
    let computing = ''
    const its = await openEngine({ device, onNotice: (text) => (computing = text) })
    computing ||= `Computing on ${its.info.device}.`
    if (its.info.device !== 'wasm') return { its, computing }
    await its.close()
    return { its: boards, computing }
  }
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
      const { info } = await engine()
      return { parameters: info.parameters, device: info.device }
    },

    async play(ask, tell, signal) {
      const { problem, arm, draw, edited } = ask
      const before = edited && boards.get(edited.board)?.played
      if (edited && !before) throw new UserError('That board is forgotten: play the problem again.')
      return withAuthor(ask, async (author) => {
        const table = { experiment: experimentOf(ask.settings), arm, seed: draw, onText: tell, signal }
        const one = before
          ? await replayEdited(author, before, edited!, table)
          : await playProblem(author, problem, table)
        boards.set(++played, { played: one, ask })
        boards.delete(played - REMEMBERED)
        return { board: played, episode: one.episode }
      })
    },

    async influence({ board }) {
      const remembered = boards.get(board)
      if (!remembered) return []
      const { ask, played: one } = remembered
      const table = { experiment: experimentOf(ask.settings), arm: ask.arm }
      return withAuthor(ask, (author) => noteEffects(author, one, table))
    },

    async run(settings, tell, signal) {
      // The page draws the record as it is, and what happens while it is read is in the next reading.
      let telling: Promise<void> | null = null
      const tellLive = async () => tell({ live: eventOf(await reading(settings)) })
      const { device } = settings
      if (device !== 'wasm' && !chosen.has(device)) {
        tell({ computing: 'Trying this browser’s GPU: the first time that takes some seconds.' })
      }
      const choice = chosen.get(device) ?? runEngine(device)
      chosen.set(device, choice)
      // Asked again, it may be there.
      choice.catch(() => chosen.delete(device))
      const { its, computing } = await choice
      tell({ computing })
      await runExperiment(experimentOf(settings), {
        out: folderOf(settings),
        engine: its,
        jobs: armNames.length,
        order: sideBySide,
        signal,
        onEvent(event) {
          if (event.type === 'tokens') return
          tell({ event })
          telling ??= tellLive().finally(() => {
            telling = null
          })
        },
      })
      await telling
      return eventOf(await reading(settings))
    },

    async kept(settings) {
      const found = await entries(folderOf(settings)).catch(() => [])
      const isRun = found.some(({ name }) => name === 'experiment.json')
      return isRun ? eventOf(await reading(settings)) : null
    },

    boards: async ({ settings, ...has }) => boardUpdate(await reading(settings), has),

    texts: async ({ settings, boards: numbers }) => (await reading(settings)).texts(numbers),

    async archive(settings) {
      const name = runName(settings)
      const files = await exportFolder(folderOf(settings))
      const shown = [...files].filter(([path]) => !path.split('/').some((part) => part.startsWith('.')))
      return zipSync(Object.fromEntries(shown.map(([path, bytes]) => [`${name}/${path}`, bytes])))
    },

    report: async (settings) => textOf(await readFile(await writeReport(folderOf(settings)))),

    async forget(settings) {
      followed.delete(folderOf(settings))
      await remove(folderOf(settings))
      return null
    },
  }

  /** Opens who writes a board, and frees it after. */
  async function withAuthor<T>(
    { settings, policy: choice }: Pick<PlayAsk, 'settings' | 'policy'>,
    use: (author: Author) => Promise<T>,
  ): Promise<T> {
    const author = await authorOf(settings, choice)
    try {
      return await use(author)
    } finally {
      author.policy.dispose()
    }
  }

  /** A training that goes on replaces what it has kept at every step: then the next is taken. */
  async function authorOf(settings: Settings, choice: PolicyChoice, tries = 3): Promise<Author> {
    try {
      return await openAuthor(await engine(), await checkpointOf(settings, choice))
    } catch (error) {
      if (choice === null || tries === 1) throw error
      return authorOf(settings, choice, tries - 1)
    }
  }

  /** Where what an arm has learned so far lies; nowhere before its first step. */
  async function checkpointOf(settings: Settings, choice: PolicyChoice): Promise<string | undefined> {
    if (choice === null) return undefined
    const job = join(folderOf(settings), `${choice.arm}-s${choice.seed}`)
    const steps = (await readProgress(job))?.steps ?? 0
    return steps === 0 ? undefined : join(job, `checkpoint-${steps}`)
  }
}

const experimentOf = (settings: Settings): Experiment => defineExperiment(choicesOf(settings))

/** A run's folder: its world, and a number of all that decides its jobs. Seeds may be added to it. */
function runName(settings: Settings): string {
  const { world, device } = settings
  const decides = settingsLink({ ...settings, seeds: [0], problem: { world, index: 0 } })
  return `${world}-${seedOf(decides, device).toString(16)}`
}
