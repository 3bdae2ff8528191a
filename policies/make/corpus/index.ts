/**
 * What the built-in policy learns from: chats in exactly the form that experiments use, made from the three worlds'
 * `corpus` slices alone, and drills. Chat i is a pure function of i, so that training can stop and go on anywhere.
 *
 * A reader's chat has one post as often as four, the two boards of the default experiment, so that neither arm starts
 * ahead; and now and then any number up to eight, of notes or of an earlier round's replies, for protocols with more
 * rounds.
 */
import { type Random, random } from '../../../src/random.ts'
import { clues } from './clues.ts'
import { checks, sums } from './drills.ts'
import { insight } from './insight.ts'
import { type Chat, type Cut, type Lesson, type Posts, pickShare, type Shares, type World } from './types.ts'
import { words } from './words.ts'

const worlds: Readonly<Record<string, World>> = { words, clues, insight }

export const postShares: Shares<'one' | 'four' | 'other'> = [
  ['one', 0.4],
  ['four', 0.4],
  ['other', 0.2],
]

function posts(rng: Random): Posts {
  const share = pickShare(postShares, rng)
  const count = share === 'one' ? 1 : share === 'four' ? 4 : 2 + rng.int(7)
  const kinds = rng.next()
  return Array.from({ length: count }, () =>
    kinds < 0.75 ? 'note' : kinds < 0.92 ? 'reply' : rng.pick(['note', 'reply']),
  )
}

/** Chat `index` of the corpus, of one lesson; `writersOnly` leaves readers out. */
export function corpusChat(index: number, lesson: Lesson, writersOnly: boolean, cut: Cut): Chat {
  const rng = random('corpus', index)
  const world = pickShare(lesson.worlds, rng)
  if (world === 'sums') return sums(rng)
  if (world === 'checks') return checks(rng)
  if (writersOnly || rng.next() < 1 - lesson.readers) return worlds[world].writer(rng)
  return worlds[world].reader(rng, posts(rng), cut, lesson)
}
