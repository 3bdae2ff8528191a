// Mixture of agents: three proposers and one aggregator, whose answer counts. Who is paid: the aggregator alone, or the
// proposers too, by the aggregator's answer.
import { defineExperiment, proposers, team } from 'message-board'

export default defineExperiment({
  arms: {
    aggregator: { protocol: proposers({ seats: 4 }) },
    everybody: { protocol: proposers({ seats: 4 }), credit: team() },
  },
  baseline: 'aggregator',
  train: { boards: 4 },
  seeds: [17, 18],
})
