// A hidden profile: each seat is dealt one part of what the question needs, so nobody can answer alone.
import { defineExperiment } from 'message-board'

const pairs = Array.from({ length: 361 }, (_, i) => [2 + (i % 19), 2 + Math.floor(i / 19)])
const problems = pairs.map(([ana, ben]) => ({
  id: `${ana}+${ben}`,
  question: 'How many coins do Ana and Ben have in all?',
  parts: [`Ana has ${ana} coins.`, `Ben has ${ben} coins.`],
  gold: String(ana + ben),
}))
const [train, holdout] = [problems.filter((_, i) => i % 5 > 0), problems.filter((_, i) => i % 5 === 0)]
const load = async () => ({ train, holdout, dropped: 0 })
export default defineExperiment({ task: { name: 'two purses', config: { v: 1 }, load }, seeds: [17, 18] })
