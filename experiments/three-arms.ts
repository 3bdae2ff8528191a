// Three arms, one of them with another learning rate. Each is compared with `own`; the three verdicts share their error rate.
import { defineExperiment, own, shared } from 'message-board'

export default defineExperiment({
  arms: {
    own: { reads: own },
    shared: { reads: shared },
    slower: { reads: shared, train: { learningRate: 5e-4 } },
  },
  baseline: 'own',
  seeds: [17, 18],
})
