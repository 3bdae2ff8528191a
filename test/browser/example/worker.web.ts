import * as mb from 'message-board/browser'

await mb.installPolicy(new URL('/policy/', location.href))
const engine = await mb.openEngine({ lanes: 2 })
const experiment = mb.defineExperiment({
  task: mb.insight({ train: 24, holdout: 4 }),
  train: { steps: 1, problemsPerStep: 2 },
  evaluation: { baseRuns: 1 },
  seeds: [17],
  engine: { threads: 2 },
})
const author = await mb.openAuthor(engine)
const [problem] = (await experiment.task.load()).holdout
const table = { experiment, arm: 'recipe', seed: 1 }
const { episode } = await mb.playProblem(author, problem, table)
for (const { seat, text } of episode.rounds[0]) postMessage(`copy ${seat + 1}: ${text}`)

const results = await mb.runExperiment(experiment, { out: '/runs/mine', engine })
postMessage(mb.post(results))
