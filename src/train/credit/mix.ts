/**
 * A weighted sum of rules: `mix([1, leaveOneOut()], [0.5, ownAnswer()])`. The weights are of notes; a final post earns its own
 * correctness once, whatever is mixed. A rule that pays a note nothing adds nothing to it; a note that none pays is not trained.
 */
import { creditOf } from './reach.ts'
import type { Assigned, Credit } from './types.ts'

export function mix(...parts: readonly (readonly [weight: number, rule: Credit])[]): Credit {
  const changing = parts.filter(([, { inTraining }]) => inTraining)
  return {
    name: `mix ${parts.map(([weight, { name }]) => `${weight} ${name}`).join(' + ')}`,
    config: { parts: parts.map(([weight, { name, config }]) => ({ weight, name, ...config })) },
    paysNotes: parts.some(([, { paysNotes }]) => paysNotes),
    boards: Math.max(...parts.map(([, { boards }]) => boards)),
    inTraining: changing[0]?.[1].inTraining,
    async assign(played, tools) {
      const assigned: Assigned[] = []
      for (const [, rule] of parts) assigned.push(await rule.assign(played, tools))
      const credits = played.map(({ episode }, p) =>
        creditOf(episode, ([round, seat]) => {
          const i = episode.rounds[round].findIndex((post) => post.seat === seat)
          const paid = parts.flatMap(([weight], k) => {
            const credit = assigned[k].credits[p][round][i]
            return credit === null ? [] : [weight * credit]
          })
          return paid.length === 0 ? null : paid.reduce((sum, credit) => sum + credit, 0)
        }),
      )
      return { credits, effective: assigned.flatMap(({ effective = [] }) => effective) }
    },
  }
}
