/**
 * Influence: how much each post moved each one that read it, as the difference that showing it makes to the reader's
 * log-probability of what it wrote. Pure: sums over what was measured elsewhere.
 */
import { type Episode, postOf, type Ref } from './types.ts'

/** One post that was shown to the author of another. */
export interface Effect {
  note: Ref
  post: Ref
  /** log p(post | all that it was shown) - log p(post | the same without the note), in nats; above 0: it was drawn there. */
  change: number
}

/** Mean effect of some kind of posts, and how many effects it is the mean of; null of none. */
export interface MeanEffect {
  change: number | null
  effects: number
}

export interface InfluenceSummary {
  /** By the seat that wrote the note: rows; by the seat that read it: columns. Null where nobody read so. */
  bySeats: (number | null)[][]
  /** By where the note stood among those shown, from the first. */
  byPosition: MeanEffect[]
  right: MeanEffect
  wrong: MeanEffect
  whole: MeanEffect
  cut: MeanEffect
}

/** What was measured on some episodes, by what the notes were. */
export function summariseInfluence(
  measured: readonly { episode: Episode; effects: readonly Effect[] }[],
  seats: number,
): InfluenceSummary {
  const all = measured.flatMap(({ episode, effects }) =>
    effects.map(({ note, post, change }) => ({
      change,
      from: note[1],
      to: post[1],
      position: postOf(episode, post)!.reads.findIndex((ref) => ref.join() === note.join()),
      note: postOf(episode, note)!,
    })),
  )
  const meanOf = (holds: (one: (typeof all)[number]) => boolean): MeanEffect => {
    const some = all.filter(holds)
    const sum = some.reduce((total, { change }) => total + change, 0)
    return { change: some.length === 0 ? null : sum / some.length, effects: some.length }
  }
  const everyone = Array.from({ length: seats }, (_, seat) => seat)
  const positions = Math.max(0, ...all.map(({ position }) => position + 1))
  return {
    bySeats: everyone.map((from) =>
      everyone.map((to) => meanOf((one) => one.from === from && one.to === to).change),
    ),
    byPosition: Array.from({ length: positions }, (_, at) => meanOf(({ position }) => position === at)),
    right: meanOf(({ note }) => note.correct),
    wrong: meanOf(({ note }) => !note.correct),
    whole: meanOf(({ note }) => !note.cut),
    cut: meanOf(({ note }) => note.cut),
  }
}
