/** What the page's worker does with the library. */
import {
  exportFolder,
  installPolicy,
  noteEffects,
  openAuthor,
  openEngine,
  openRun,
  playProblem,
  replayEdited,
  runExperiment,
} from '../../../src/browser.ts'
import { small, table } from './experiment.ts'

export type Answer = { told: unknown } | { number: number; result: unknown } | { number: number; error: string }

const tell = (told: unknown) => postMessage({ told } satisfies Answer)

const calls = {
  install: (base: string) => installPolicy(new URL(base, location.href)),
  /** Plays the first held-out problem, then again with its first note edited. */
  async play() {
    const engine = await openEngine({ lanes: 2 })
    const author = await openAuthor(engine)
    const [problem] = (await table.experiment.task.load()).holdout
    const played = await playProblem(author, problem, { ...table, onText: tell })
    const edited = await replayEdited(author, played, { note: [0, 0], text: 'It is \\boxed{7}.' }, table)
    const effects = await noteEffects(author, edited, table)
    await engine.close()
    return { info: engine.info, played: played.episode, edited: edited.episode, effects }
  },
  async run(steps: number, out: string) {
    await runExperiment(small(steps), { out, onEvent: tell })
    const files = await exportFolder(out)
    return [...files].map(([path, bytes]) => [path, new TextDecoder('latin1').decode(bytes)])
  },
  async view(out: string) {
    const run = await openRun(out)
    const texts = await run.texts([0])
    return { view: run.view(), texts }
  },
}
export type Calls = typeof calls

addEventListener('message', async ({ data: { number, name, given } }) => {
  try {
    const call = calls[name as keyof Calls] as (...given: unknown[]) => Promise<unknown>
    postMessage({ number, result: await call(...given) } satisfies Answer)
  } catch (error) {
    postMessage({ number, error: (error as Error).stack ?? String(error) } satisfies Answer)
  }
})
