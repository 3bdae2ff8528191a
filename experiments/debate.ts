// MAPoRL's debate: three turns, in which everybody answers, reads all answers of the turn before, and answers again;
// against one turn of reading. All turns are paid by their own answer, as there (without its learned verifier).
import { board, debate, defineExperiment, ownAnswer } from 'message-board'

export default defineExperiment({
  arms: {
    board: { protocol: board(), credit: ownAnswer() },
    debate: { protocol: debate({ turns: 3 }), credit: ownAnswer() },
  },
  baseline: 'board',
  seeds: [17, 18],
})
