// A task of one's own: 640 problems and their answers, every fifth held out. The questions are of a kind that the built-in
// policy knows; a model that you name is asked whatever you write.
import { defineExperiment, type Problem, type Task } from 'message-board'

const problems = Array.from({ length: 640 }, (_, i): Problem => {
  const [rows, seats, people] = [6 + (i % 8), 4 + (Math.floor(i / 8) % 8), 5 + Math.floor(i / 64)]
  return {
    id: `train-${rows}x${seats}-${people}`,
    question: `A train has ${rows} rows of ${seats} seats. ${people} people sit down. How many seats are free?`,
    gold: String(rows * seats - people),
  }
})
const heldOut = (_: Problem, i: number) => i % 5 === 0

const task: Task = {
  name: 'free seats',
  // All that decides which problems come out: another value is another experiment.
  config: { version: 1 },
  load: async () => ({
    train: problems.filter((problem, i) => !heldOut(problem, i)),
    holdout: problems.filter(heldOut),
    dropped: 0,
  }),
}

export default defineExperiment({ task, seeds: [17, 18] })
