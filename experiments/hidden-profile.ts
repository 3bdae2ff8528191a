// A hidden profile: each seat is dealt one part of what the question needs, so nobody can answer alone.
import { defineExperiment, type Problem, type Task } from 'message-board'

const problem = (i: number): Problem => {
  const [ana, ben] = [2 + (i % 19), 2 + Math.floor(i / 19)]
  const parts = [`Ana has ${ana} coins.`, `Ben has ${ben} coins.`]
  return {
    id: `${ana}+${ben}`,
    question: 'How many coins do Ana and Ben have in all?',
    parts,
    gold: `${ana + ben}`,
  }
}
const all = Array.from({ length: 361 }, (_, i) => problem(i))
const [train, holdout] = [all.filter((_, i) => i % 5 > 0), all.filter((_, i) => i % 5 === 0)]
const task: Task = {
  name: 'two purses',
  config: { v: 1 },
  load: async () => ({ train, holdout, dropped: 0 }),
}
export default defineExperiment({ task, seeds: [17, 18] })
