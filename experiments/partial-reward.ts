// A reward between 0 and 1: a reply earns 1 where it is right and less the further its number is from the gold. It is what
// training pays; the evaluation goes on counting right and wrong, so that arms paid differently can be compared.
import { type Credit, defineExperiment, type Post } from 'message-board'

/** 1 for the gold itself, falling to 0 where the answer is off by as much as the gold is. No number earns nothing. */
function closeness({ answer, correct }: Post, gold: string): number {
  if (correct) return 1
  const off = Math.abs(Number(answer) - Number(gold)) / Math.abs(Number(gold))
  return answer === null || Number.isNaN(off) ? 0 : Math.max(0, 1 - off)
}

const partial: Credit = {
  name: 'closeness',
  config: { falls: 'linear' },
  paysNotes: false,
  boards: 1,
  assign: async (played) => ({
    credits: played.map(({ problem, episode: { rounds } }) =>
      rounds.map((posts, round) =>
        posts.map((post) => (round === rounds.length - 1 ? closeness(post, problem.gold) : null)),
      ),
    ),
  }),
}

export default defineExperiment({
  arms: { rightOrWrong: {}, closeness: { credit: partial } },
  baseline: 'rightOrWrong',
  seeds: [17, 18],
})
