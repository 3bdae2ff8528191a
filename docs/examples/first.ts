// What does a reader need? Three boards in a world where each of three facts is known to one seat or two.
import { clues, defineExperiment, grpo, own, ring, shared } from 'message-board'

export default defineExperiment({
  task: clues({ parts: 3, holdout: 60 }),
  arms: { own: { reads: own }, ring: { reads: ring }, shared: { reads: shared } },
  baseline: 'own',
  train: grpo({ steps: 10 }),
  seeds: [17, 18],
})
