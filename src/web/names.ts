/** How rounds, seats and posts are called on the page. Pure. */
import type { Post } from '../board/types.ts'
import type { Side } from '../view/types.ts'

type Round = Side['rounds'][number]

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

/** A round by what its posts are: "notes", "replies"; by its own name where that is no single word. */
export function postsOf({ name, speakers }: Pick<Round, 'name' | 'speakers'>): string {
  if (speakers.length === 1 || !/^[a-z]+$/.test(name)) return name
  return /[^aeiou]y$/.test(name) ? `${name.slice(0, -1)}ies` : `${name}s`
}

/** A post by its seat: "Note 3"; "Proposer 1" where the seat has a name of its own, "Copy 3" in a round like "turn 2". */
export function postTitle(
  { seats, rounds }: Pick<Side, 'seats' | 'rounds'>,
  round: number,
  seat: number,
): string {
  const { name } = rounds[round]
  return seats[seat] === `copy ${seat + 1}` && /^[a-z]+$/.test(name)
    ? capital(`${name} ${seat + 1}`)
    : capital(seats[seat])
}

/** What a post read, in words: "all notes", "note 1, note 2", "turn 1: all; turn 2: copy 3". */
export function readsOf(side: Pick<Side, 'seats' | 'rounds'>, { reads }: Pick<Post, 'reads'>): string {
  if (reads.length === 0) return 'nothing'
  const rounds = [...new Set(reads.map(([round]) => round))]
  const told = rounds.map((round) => {
    const seats = reads.flatMap(([r, seat]) => (r === round ? [seat] : []))
    const { speakers } = side.rounds[round]
    const all = seats.length === speakers.length && speakers.length > 1
    const posts = postsOf(side.rounds[round])
    if (all) return `all of ${posts}`.replace(/of (?=[a-z]+$)/, '')
    const titles = seats.map((seat) => postTitle(side, round, seat).replace(/^./, (c) => c.toLowerCase()))
    return rounds.length === 1 ? titles.join(', ') : `${posts}: ${titles.join(', ')}`
  })
  return told.join('; ')
}

/** What round `r` is called where several arms are shown together. */
export function roundTitle(sides: readonly Side[], r: number): string {
  const names = new Set(sides.flatMap(({ rounds }) => (rounds[r] ? [postsOf(rounds[r])] : [])))
  const [name] = names
  return names.size === 1 ? capital(name) : `Round ${r + 1}`
}

/** The last part of a path or a hub name. */
export const shortName = (name: string): string => name.split(/[\\/]/).filter(Boolean).at(-1) ?? name
