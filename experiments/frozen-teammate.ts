// Three seats learn beside a teammate that does not: it posts, it is read, and it stays as it was.
import { board, defineExperiment } from 'message-board'

const seats = [{}, {}, {}, { name: 'teammate', policy: 'frozen' }]

export default defineExperiment({
  arms: {
    four: { protocol: board() },
    teammate: { protocol: board({ seats }), policies: { frozen: { trained: false } } },
  },
  baseline: 'four',
  seeds: [17, 18],
})
