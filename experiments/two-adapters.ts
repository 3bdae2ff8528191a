// Four seats, two adapters on one base: seats 1 and 2 share one, seats 3 and 4 the other; both learn in one step.
import { board, defineExperiment, ownAnswer, shared } from 'message-board'

const seats = ['left', 'left', 'right', 'right'].map((policy) => ({ policy }))

export default defineExperiment({
  arms: {
    one: { protocol: board({ reads: shared }), credit: ownAnswer() },
    two: { protocol: board({ reads: shared, seats }), credit: ownAnswer() },
  },
  baseline: 'one',
  seeds: [17, 18],
})
