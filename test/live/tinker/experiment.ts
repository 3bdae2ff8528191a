/**
 * The experiment of `npm run test:tinker`: the whole of it, cut down, with writers that learn by re-scoring. Temperature and
 * alpha are what servers have.
 */
import { board, defineExperiment, grpo, leaveOneOut, own, shared, wordProblems } from '../../../src/index.ts'

const sampling = { temperature: 1, topP: 1 }

export default defineExperiment({
  model: process.env.TINKER_MODEL,
  task: wordProblems({ train: 24, holdout: 6 }),
  board: { copies: 4, noteTokens: 24, replyTokens: 24, readTokens: 300 },
  train: grpo({ steps: 3, problemsPerStep: 3, learningRate: 1e-3, lora: { rank: 8, alpha: 32 } }),
  sampling: {
    train: { trained: sampling, context: sampling },
    evaluation: { ...sampling, topP: 0.95 },
  },
  arms: {
    baseline: { protocol: board({ reads: own }) },
    writers: { protocol: board({ reads: shared }), credit: leaveOneOut({ by: 'rescore' }) },
  },
  evaluation: { baseRuns: 1, problemsAtOnce: 6 },
  seeds: [17],
})
