// A credit rule of one's own: MAPoRL's influence-aware reward (arXiv:2502.18439). A post of turn t earns its own correctness
// and, discounted, the mean of everybody's in each later turn; here by the grader, there by a learned verifier.
import { type Credit, debate, defineExperiment, type Episode, ownAnswer } from 'message-board'

const influence = (discount: number): Credit => ({
  name: `influence ${discount}`,
  // All that decides what is paid: it stands in the record, and another value is another experiment.
  config: { discount },
  paysNotes: true,
  boards: 1,
  assign: async (played) => ({ credits: played.map(({ episode }) => paid(episode, discount)) }),
})

function paid({ rounds }: Episode, discount: number): number[][] {
  const right = rounds.map((posts) => posts.filter(({ correct }) => correct).length / posts.length)
  return rounds.map((posts, turn) => {
    const weights = rounds.slice(turn).map((_, later) => discount ** later)
    const total = weights.reduce((sum, weight) => sum + weight, 0)
    const later = weights.slice(1).reduce((sum, weight, i) => sum + weight * right[turn + 1 + i], 0)
    return posts.map(({ correct }) => (Number(correct) + later) / total)
  })
}

export default defineExperiment({
  arms: {
    own: { protocol: debate({ turns: 3 }), credit: ownAnswer() },
    influence: { protocol: debate({ turns: 3 }), credit: influence(0.3) },
  },
  baseline: 'own',
  seeds: [17, 18],
})
