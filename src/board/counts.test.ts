import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { mathGrader } from '../grade/grader.ts'
import { countEpisodes, finalScores, vote } from './counts.ts'
import type { Episode, Post } from './types.ts'

/** A post as the rounds make one, its grade read by the real verifier. */
function post(text: string, gold: string, seat = 0, cut = false): Post {
  return { seat, reads: [], text, tokens: text.split(' ').length, ...mathGrader.grade(text, gold), cut }
}

const episode = (gold: string, ...rounds: (string | null)[][]): Episode => ({
  problemId: `${gold}:${rounds.join()}`,
  rounds: rounds.map((texts) =>
    texts.flatMap((text, seat) => (text === null ? [] : [post(text, gold, seat)])),
  ),
})
const board = (gold: string, notes: string[], replies: string[]) => episode(gold, notes, replies)

const box = (answer: string) => `\\boxed{${answer}}`

describe('countEpisodes', () => {
  it('counts a board worked by hand', () => {
    const counts = countEpisodes([
      // Gold 7. Notes: right, wrong, none, right. Replies: kept right, rescued, still none, misled.
      board('7', [box('7'), box('8'), 'so far 7', box('7.0')], [box('7'), box('7'), 'hm', box('9')]),
      // Gold 1. Two camps of one: the first posted wins, and is wrong. Reader 1 keeps its right answer.
      board('1', [box('2'), box('1'), 'cut', ''], [box('2'), box('1'), box('1'), box('3')]),
    ])
    expect(counts.noteAcc).toBe(3 / 8)
    expect(counts.voteAcc).toBe(1 / 2)
    expect(counts.anyNote).toBe(1)
    // Board 1: readers 1 (8 to 7) and 3 (7 to 9). Board 2: readers 2 and 3 (nothing to something).
    expect(counts.switched).toBe(4 / 8)
    expect(counts.rescued).toBe(2 / 8)
    expect(counts.misled).toBe(1 / 8)
    expect(counts.notesBoxed).toBe(5 / 8)
  })

  it('reads accuracy after as accuracy before, plus rescued, minus misled', () => {
    const texts = fc.array(fc.constantFrom(box('1'), box('2'), box('2.0'), '', 'no box'), {
      minLength: 4,
      maxLength: 4,
    })
    const anyBoard = fc
      .tuple(fc.constantFrom('1', '2'), texts, texts)
      .map(([gold, notes, replies]) => board(gold, notes, replies))
    fc.assert(
      fc.property(fc.array(anyBoard, { minLength: 1, maxLength: 6 }), (boards) => {
        const counts = countEpisodes(boards)
        const replies = boards.flatMap((b) => b.rounds[1])
        const passAt1 = replies.filter((reply) => reply.correct).length / replies.length
        expect(counts.noteAcc! + counts.rescued! - counts.misled!).toBeCloseTo(passAt1, 12)
        expect(counts.rescued! + counts.misled!).toBeLessThanOrEqual(counts.switched! + 1e-12)
        expect(counts.anyNote).toBeGreaterThanOrEqual(counts.voteAcc!)
        expect(counts.anyNote).toBeGreaterThanOrEqual(counts.noteAcc!)
        for (const value of [counts.noteAcc, counts.voteAcc, counts.switched]) {
          expect(value).toBeGreaterThanOrEqual(0)
          expect(value).toBeLessThanOrEqual(1)
        }
      }),
    )
  })

  it('counts each round against the same seat’s latest post, in any protocol', () => {
    // Gold 7. Seat 1 is silent in the second round: its third post is held against its first.
    const counts = countEpisodes([episode('7', [box('7'), box('8')], [box('8'), null], [box('7'), box('7')])])
    expect(counts.rounds.map(({ right }) => right)).toEqual([0.5, 0, 1])
    expect(counts.rounds.map(({ rescued }) => rescued)).toEqual([null, 0, 1])
    expect(counts.rounds.map(({ misled }) => misled)).toEqual([null, 1, 0])
    expect(counts).toMatchObject({ noteAcc: 0, voteAcc: 0, anyNote: 0, rescued: 1, switched: 1 })
  })

  it('has nothing to say of notes where nobody reads', () => {
    expect(countEpisodes([episode('7', [box('7'), box('8')])])).toMatchObject({
      noteAcc: null,
      voteAcc: null,
      switched: null,
      replyChars: 9,
    })
    // A chain of revisers: nobody speaks twice.
    expect(countEpisodes([episode('7', [box('8'), null], [null, box('7')])])).toMatchObject({
      noteAcc: 0,
      switched: null,
      rescued: null,
    })
  })

  it('refuses to count nothing', () => {
    expect(() => countEpisodes([])).toThrow(RangeError)
  })
})

describe('finalScores', () => {
  const last = episode('7', [box('1'), box('1')], [box('7'), box('8'), box('7')])
  it('are each speaker’s own, the vote’s, or one seat’s', () => {
    expect(finalScores(last, 'each')).toEqual([1, 0, 1])
    expect(finalScores(last, 'vote')).toEqual([1])
    expect(finalScores(last, { seat: 1 })).toEqual([0])
  })
})

describe('vote', () => {
  const ask = (...texts: string[]) => vote(texts.map((text) => post(text, '7')))?.answer ?? null

  it('is the most common boxed answer, however it is written', () => {
    expect(ask(box('8'), box('7'), box('7.0'))).toBe('7')
  })

  it('gives a tie to the first posted', () => {
    expect(ask(box('9'), box('7'), box('7'), box('9'))).toBe('9')
    expect(ask(box('7'), box('9'))).toBe('7')
  })

  it('counts boxed answers alone', () => {
    expect(ask('The answer is 7', '', 'open \\boxed{7')).toBe(null)
    expect(ask('The answer is 7', 'The answer is 7', box('3'))).toBe('3')
  })

  it('does not depend on the order of the notes, ties aside', () => {
    const answers = fc.array(fc.constantFrom('1', '2', '3'), { minLength: 1, maxLength: 7 })
    fc.assert(
      fc.property(answers, fc.nat(), (list, turn) => {
        const votes = ['1', '2', '3'].map((a) => list.filter((b) => a === b).length)
        const most = Math.max(...votes)
        fc.pre(votes.filter((v) => v === most).length === 1)
        const turned = [...list.slice(turn % list.length), ...list.slice(0, turn % list.length)]
        expect(ask(...turned.map(box))).toBe(ask(...list.map(box)))
      }),
    )
  })
})
