// Reviser after reviser: one seat drafts, each next one reads the draft before and writes a better one; the last one answers.
// A problem has one answer, so a step plays each problem several times to have something to compare.
import { alone, defineExperiment, ownAnswer, revisers } from 'message-board'

export default defineExperiment({
  arms: {
    alone: { protocol: alone({ seats: 1 }) },
    chain: { protocol: revisers({ seats: 3 }), credit: ownAnswer() },
  },
  baseline: 'alone',
  train: { boards: 4 },
  seeds: [17, 18],
})
