/** What readers did with their boards: pure counts over boards, defined as in the reference experiment. */
import { readBoxed } from '../grade/answer.ts'
import { answersEqual } from '../grade/math-equal.ts'
import type { Board, Post } from './types.ts'

/** Shares are of all notes, all replies or all problems of the boards counted, each in [0, 1]. */
export interface ReaderCounts {
  /** Notes that are right. */
  noteAcc: number
  /** Boards whose most common boxed answer is right: what one would get without reading. */
  voteAcc: number
  /** Boards with at least one right note: the most that copying could reach. */
  anyNote: number
  /** Replies whose answer differs from their writer's own note's (an answer differs from no answer). */
  switched: number
  /** Replies that are right where their writer's own note was wrong. */
  rescued: number
  /** Replies that are wrong where their writer's own note was right. */
  misled: number
  /** Notes, and replies, ended by the token limit. */
  notesCut: number
  repliesCut: number
  /** Notes that close a boxed answer. */
  notesBoxed: number
  /** Mean lengths. */
  noteChars: number
  replyChars: number
  noteTokens: number
  replyTokens: number
}

/** Counts over boards of equal size. Throws on an empty list: a share of nothing is no number. */
export function whatReadersDid(boards: readonly Board[]): ReaderCounts {
  if (boards.length === 0) throw new RangeError('no boards to count')
  const notes = boards.flatMap((board) => board.notes)
  const replies = boards.flatMap((board) => board.replies)
  const pairs = boards.flatMap((board) =>
    board.replies.map((reply, copy) => ({ reply, note: board.notes[copy] })),
  )
  return {
    noteAcc: share(notes, (note) => note.correct),
    voteAcc: share(boards, (board) => vote(board.notes)?.correct === true),
    anyNote: share(boards, (board) => board.notes.some((note) => note.correct)),
    switched: share(pairs, ({ reply, note }) => !sameAnswer(reply.answer, note.answer)),
    rescued: share(pairs, ({ reply, note }) => reply.correct && !note.correct),
    misled: share(pairs, ({ reply, note }) => !reply.correct && note.correct),
    notesCut: share(notes, (note) => note.cut),
    repliesCut: share(replies, (reply) => reply.cut),
    notesBoxed: share(notes, (note) => readBoxed(note.text) !== null),
    noteChars: mean(notes, (note) => note.text.length),
    replyChars: mean(replies, (reply) => reply.text.length),
    noteTokens: mean(notes, (note) => note.tokens),
    replyTokens: mean(replies, (reply) => reply.tokens),
  }
}

/** The first note that gives the board's most common boxed answer (a tie goes to the first posted), or null. */
export function vote(notes: readonly Post[]): Post | null {
  const camps: { answer: string; first: Post; votes: number }[] = []
  for (const note of notes) {
    const answer = readBoxed(note.text)
    if (answer === null) continue
    const camp = camps.find((other) => answersEqual(answer, other.answer))
    if (camp) camp.votes++
    else camps.push({ answer, first: note, votes: 1 })
  }
  // Camps are in the order of their first note, so a strict comparison leaves a tie with the first posted.
  let winner: (typeof camps)[number] | undefined
  for (const camp of camps) if (!winner || camp.votes > winner.votes) winner = camp
  return winner?.first ?? null
}

/** Whether two answers are one; no answer equals no answer alone. */
export function sameAnswer(a: string | null, b: string | null): boolean {
  return a === null || b === null ? a === b : answersEqual(a, b)
}

function share<T>(items: readonly T[], holds: (item: T) => boolean): number {
  return items.filter(holds).length / items.length
}

function mean<T>(items: readonly T[], size: (item: T) => number): number {
  return items.reduce((sum, item) => sum + size(item), 0) / items.length
}
