// Is one neighbour's note enough? In `clues` the next seat was told the part that a reader lacks; a ring shows its note.
import { clues, defineExperiment, grpo, own, ring } from 'message-board'

export default defineExperiment({
  task: clues({ holdout: 40 }),
  arms: { own: { reads: own }, ring: { reads: ring } },
  baseline: 'own',
  train: grpo({ steps: 10 }),
  seeds: [17, 18],
})
