import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bit, encodeFlag, layoutOf } from '../view/flags.ts'
import type { BoardColumns, JobView, Side } from '../view/types.ts'
import { type BoardsIndex, boardsIndex, rightByRound, scoresOf } from './boards-index.ts'
import {
  type Condition,
  conditions,
  counted,
  difference,
  type Filter,
  matches,
  pairsOf,
  problemRows,
  type Row,
  type SortKey,
  seedOfInterest,
  sorted,
} from './rows.ts'

/** Two seats that each post a note and a reply. */
const notesAndReplies = [{ speakers: [0, 1] }, { speakers: [0, 1] }]

const side = (title: string, arm: number | null, rounds = notesAndReplies, final: Side['final'] = 'each') =>
  ({ name: title, title, arm, rounds, final }) as Side

const sides = [
  side('base, own', null),
  side('base, shared', null),
  side('baseline', 0),
  side('recipe', 1),
  // Three turns of two seats, one of which is silent in the second; what the third votes for counts.
  side('debate', 2, [{ speakers: [0, 1] }, { speakers: [1] }, { speakers: [0, 1] }], 'vote'),
  // Two propose, the third answers for all.
  side('aggregator', 3, [{ speakers: [0, 1] }, { speakers: [2] }], { seat: 2 }),
]
const [BASE, , BASELINE, RECIPE, DEBATE, AGGREGATOR] = sides.keys()

const job = (name: string, number: number, seed: number | null) => ({ name, side: number, seed }) as JobView
const jobs = [
  job('base-baseline-1', BASE, null),
  job('base-recipe-1', 1, null),
  job('baseline-s17', BASELINE, 17),
  job('recipe-s17', RECIPE, 17),
  job('debate-s17', DEBATE, 17),
  job('aggregator-s17', AGGREGATOR, 17),
  job('baseline-s18', BASELINE, 18),
  job('recipe-s18', RECIPE, 18),
]
const contrasts = [
  { arm: 'recipe', against: 'baseline' },
  { arm: 'debate', against: 'recipe' },
]

/** A board as letters: R right, w wrong, c wrong and cut; round by round, then the vote. */
interface Made {
  job: string
  problem: number
  posts: string
  step?: number
}

const sideOf = (name: string) => sides[jobs.find((each) => each.name === name)!.side]

function indexOf(made: Made[], shown = jobs): BoardsIndex {
  const bits: Record<string, number> = { R: bit.right, w: 0, c: bit.cut }
  const count = Math.max(-1, ...made.map(({ problem }) => problem)) + 1
  for (const { job: name, posts } of made) {
    if (posts.length !== layoutOf(sideOf(name)).width) throw new Error(`${name} ${posts}`)
  }
  const columns: BoardColumns = {
    job: made.map(({ job: name }) => shown.findIndex((each) => each.name === name)),
    step: made.map(({ step = 0 }) => step),
    problem: made.map(({ problem }) => problem),
    flags: made.map(({ posts }) => [...posts].map((letter) => encodeFlag(bits[letter])).join('')).join(''),
    problems: {
      id: Array.from({ length: count }, (_, i) => `id-${i}`),
      question: Array.from({ length: count }, (_, i) => `How many is ${i}?`),
      gold: Array.from({ length: count }, (_, i) => `${i * 1000}`),
      parts: Array.from({ length: count }, (_, i) => (i === 2 ? ['Only one was told of Zebras.'] : [])),
    },
  }
  return boardsIndex(columns, { jobs: shown, sides, contrasts })
}

const everything: Filter = { conditions: new Set(), where: 'trained', search: '', inTexts: null }

describe('rows', () => {
  it('count rescued, misled and cut as the reference defines them', () => {
    const index = indexOf([
      { job: 'recipe-s17', problem: 0, posts: 'wR' + 'Rw' },
      { job: 'recipe-s18', problem: 0, posts: 'cR' + 'wR' },
    ])
    const [row] = problemRows(index)
    expect(row.tallies[RECIPE]).toEqual({ scores: 4, right: 2, rescued: 1, misled: 1, notesCut: 1 })
    expect(counted(row, 'trained', 'rescued', sides)).toBe(1)
    expect(counted(row, BASELINE, 'rescued', sides)).toBe(0)
    expect(difference(row, pairsOf({ sides, contrasts })[0])).toBeNull()
  })

  it("count a last post against its seat's latest one before, and what scores as the protocol says", () => {
    // Seat 0 is silent in the second turn: its first counts. Seat 1 was right, then wrong, and is right at last.
    const [debate] = problemRows(indexOf([{ job: 'debate-s17', problem: 0, posts: 'RR' + 'c' + 'wR' + 'w' }]))
    expect(debate.tallies[DEBATE]).toEqual({ scores: 1, right: 0, rescued: 1, misled: 1, notesCut: 1 })
    // The aggregator said nothing before: it can neither be rescued nor misled.
    const index = indexOf([{ job: 'aggregator-s17', problem: 0, posts: 'cw' + 'R' }])
    const [aggregated] = problemRows(index)
    expect(aggregated.tallies[AGGREGATOR]).toEqual({
      scores: 1,
      right: 1,
      rescued: 0,
      misled: 0,
      notesCut: 1,
    })
    expect(scoresOf(index, 0)).toEqual([true])
    expect(rightByRound(index, 0)).toEqual([
      { right: 0, of: 2 },
      { right: 1, of: 1 },
    ])
  })

  it('find each board where boards of other widths lie between', () => {
    const index = indexOf([
      { job: 'debate-s17', problem: 0, posts: 'wwwwwR' },
      { job: 'recipe-s17', problem: 0, posts: 'wwRw' },
      { job: 'aggregator-s17', problem: 0, posts: 'RRw' },
      { job: 'recipe-s18', problem: 0, posts: 'wwwR' },
    ])
    expect([0, 1, 2, 3].map((board) => scoresOf(index, board))).toEqual([
      [true],
      [true, false],
      [false],
      [false, true],
    ])
  })

  it('leave training out', () => {
    expect(problemRows(indexOf([{ job: 'recipe-s17', problem: 0, posts: 'wwRR', step: 3 }]))).toEqual([])
  })

  it('say where arms and seeds disagree, and count a draw for neither', () => {
    const rows = problemRows(
      indexOf([
        // Problem 0: the arms disagree. Problem 1: the recipe's seeds do. Problem 2: a draw against right.
        { job: 'baseline-s17', problem: 0, posts: 'wwww' },
        { job: 'recipe-s17', problem: 0, posts: 'wwRR' },
        { job: 'recipe-s17', problem: 1, posts: 'wwRR' },
        { job: 'recipe-s18', problem: 1, posts: 'wwww' },
        { job: 'baseline-s17', problem: 2, posts: 'wwRw' },
        { job: 'recipe-s17', problem: 2, posts: 'wwRR' },
        // Problem 3: a third arm disagrees with both. Problem 4: a base is no arm.
        { job: 'baseline-s17', problem: 3, posts: 'wwRR' },
        { job: 'recipe-s17', problem: 3, posts: 'wwRR' },
        { job: 'debate-s17', problem: 3, posts: 'wwwwww' },
        { job: 'base-baseline-1', problem: 4, posts: 'wwww' },
        { job: 'recipe-s17', problem: 4, posts: 'wwRR' },
      ]),
    )
    expect(rows.map((row) => [row.armsDisagree, row.seedsDisagree])).toEqual([
      [true, false],
      [false, true],
      [false, false],
      [true, false],
      [false, false],
    ])
  })

  it('open at the seed in which a row shows what is looked for', () => {
    const made = [
      { job: 'recipe-s17', problem: 0, posts: 'RRRR' },
      { job: 'recipe-s18', problem: 0, posts: 'wRRR' },
    ]
    const index = indexOf(made)
    const [row] = problemRows(index)
    const rescued = { ...everything, conditions: new Set<Condition>(['rescued']) }
    expect(seedOfInterest(row, rescued, index)).toBe(18)
    expect(seedOfInterest(row, everything, index)).toBe(17)
    const untrained = indexOf([{ job: 'base-baseline-1', problem: 0, posts: 'wwww' }], jobs.slice(0, 2))
    expect(seedOfInterest(problemRows(untrained)[0], everything, untrained)).toBeNull()
  })
})

const boards = fc
  .array(
    fc.constantFrom(...jobs.map(({ name }) => name)).chain((name) => {
      const { width } = layoutOf(sideOf(name))
      return fc.record({
        job: fc.constant(name),
        problem: fc.nat(5),
        posts: fc.string({ unit: fc.constantFrom('R', 'w', 'c'), minLength: width, maxLength: width }),
      })
    }),
    { maxLength: 30 },
  )
  // A job poses a problem once.
  .map((made) => [...new Map(made.map((each) => [`${each.job} ${each.problem}`, each])).values()])

/** The letters of each last post and of what its seat posted before, and of all posts before the last round. */
function readings({ job: name, posts }: Made): { turns: [before: string, last: string][]; early: string } {
  if (name.startsWith('debate')) {
    return {
      turns: [
        [posts[0], posts[3]],
        [posts[2], posts[4]],
      ],
      early: posts.slice(0, 3),
    }
  }
  if (name.startsWith('aggregator')) return { turns: [], early: posts.slice(0, 2) }
  return {
    turns: [
      [posts[0], posts[2]],
      [posts[1], posts[3]],
    ],
    early: posts.slice(0, 2),
  }
}

describe('filters and sorting', () => {
  it('keep exactly the rows that meet every condition, with every combination', () => {
    fc.assert(
      fc.property(
        boards,
        fc.subarray([...conditions]),
        fc.constantFrom('trained' as const, ...sides.keys()),
        (made, chosen, where) => {
          const rows = problemRows(indexOf(made))
          const filter: Filter = { ...everything, conditions: new Set(chosen), where }
          const isIn = (name: string) =>
            where === 'trained' ? sideOf(name).arm !== null : sideOf(name) === sides[where]
          const has = (row: Row, holds: (reading: ReturnType<typeof readings>) => boolean) =>
            made.some((one) => one.problem === row.problem && isIn(one.job) && holds(readings(one)))
          const meets: Record<Condition, (row: Row) => boolean> = {
            rescued: (row) =>
              has(row, ({ turns }) => turns.some(([before, last]) => before !== 'R' && last === 'R')),
            misled: (row) =>
              has(row, ({ turns }) => turns.some(([before, last]) => before === 'R' && last !== 'R')),
            cut: (row) => has(row, ({ early }) => early.includes('c')),
            arms: (row) => row.armsDisagree,
            seeds: (row) => row.seedsDisagree,
          }
          const expected = rows.filter((row) => chosen.every((condition) => meets[condition](row)))
          expect(rows.filter((row) => matches(row, filter, sides))).toEqual(expected)
        },
      ),
    )
  })

  it('search in questions, parts, ids and answers in any case, and in texts that were found', () => {
    const rows = problemRows(
      indexOf([0, 1, 2].map((problem) => ({ job: 'base-baseline-1', problem, posts: 'wwRR' }))),
    )
    const found = (search: string, inTexts: number[] | null = null) =>
      rows
        .filter((row) => matches(row, { ...everything, search, inTexts: inTexts && new Set(inTexts) }, sides))
        .map(({ problem }) => problem)
    expect(found('MANY is 1')).toEqual([1])
    expect(found('id-2')).toEqual([2])
    expect(found('2000')).toEqual([2])
    expect(found('zebras')).toEqual([2])
    expect(found('nowhere', [0])).toEqual([0])
    expect(found('is 1', [0])).toEqual([0, 1])
  })

  it('sort all rows and lose none, keeping the order of equals', () => {
    const keys: SortKey[] = ['order', 'difference', 'rescued', 'misled', 'cut', ...sides.keys()]
    const pairs = pairsOf({ sides, contrasts })
    expect(pairs).toEqual([
      { arm: RECIPE, against: BASELINE },
      { arm: DEBATE, against: RECIPE },
    ])
    fc.assert(
      fc.property(
        boards,
        fc.constantFrom(...keys),
        fc.boolean(),
        fc.constantFrom(...pairs, undefined),
        (made, key, descending, pair) => {
          const rows = problemRows(indexOf(made))
          const result = sorted(rows, { key, descending }, { where: 'trained', pair, sides })
          expect(new Set(result)).toEqual(new Set(rows))
          expect(result).toHaveLength(rows.length)
          if (key === 'order') return
          const value = (row: Row): number => {
            if (key === 'difference') return difference(row, pair) ?? Number.NEGATIVE_INFINITY
            if (typeof key === 'string') {
              return counted(row, 'trained', key === 'cut' ? 'notesCut' : key, sides)
            }
            const { right, scores } = row.tallies[key]
            return scores === 0 ? -1 : right / scores
          }
          const values = result.map(value)
          expect(values).toEqual(
            values.toSorted((a, b) => (a === b ? 0 : (descending ? -1 : 1) * (a < b ? -1 : 1))),
          )
          for (let i = 1; i < result.length; i++) {
            if (values[i] === values[i - 1]) {
              expect(rows.indexOf(result[i])).toBeGreaterThan(rows.indexOf(result[i - 1]))
            }
          }
        },
      ),
    )
  })
})
