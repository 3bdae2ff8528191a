/** Plays a first table, then runs the default experiment or a part of it. */
import {
  defineExperiment,
  installPolicy,
  openAuthor,
  openEngine,
  playProblem,
  runExperiment,
} from '../../src/browser.ts'

export type Told =
  | { what: 'policy' | 'engine' | 'first text' | 'table' }
  | { what: 'done'; timing: unknown }
  | { error: string }

const tell = (told: Told) => postMessage(told)

addEventListener('message', async ({ data: { steps, arms, seeds } }) => {
  try {
    await installPolicy(new URL('/policy/', location.href))
    tell({ what: 'policy' })
    const engine = await openEngine({ lanes: 2 })
    tell({ what: 'engine' })
    const experiment = defineExperiment({ train: { steps }, seeds, engine: { threads: 2 } })
    const [problem] = (await experiment.task.load()).holdout
    const author = await openAuthor(engine)
    let isFirst = true
    await playProblem(author, problem, {
      experiment,
      arm: 'recipe',
      seed: 1,
      onText() {
        if (isFirst) tell({ what: 'first text' })
        isFirst = false
      },
    })
    tell({ what: 'table' })
    const { timing } = await runExperiment(experiment, { out: '/runs/bench', fresh: true, arms, engine })
    tell({ what: 'done', timing })
  } catch (error) {
    tell({ error: (error as Error).stack ?? String(error) })
  }
})
