// Who reads whom, four ways. A new topology is a function from a seat to the posts that it is shown; `named` gives it the
// name that records and tables show.
import { defineExperiment, named, own, randomOf, ring } from 'message-board'

// Seats in twos: 0 and 1 read each other, 2 and 3 read each other; the last of an odd number reads itself alone.
const pairs = named('pairs', (seat: number, seats: number) =>
  [seat - (seat % 2), seat - (seat % 2) + 1].filter((read) => read < seats),
)

export default defineExperiment({
  arms: {
    own: { reads: own },
    pairs: { reads: pairs },
    ring: { reads: ring },
    two: { reads: randomOf(2) },
  },
  baseline: 'own',
  seeds: [17, 18],
})
