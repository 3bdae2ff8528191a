import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bit, encodeFlag } from '../view/flags.ts'
import type { BoardColumns, JobView, Role } from '../view/types.ts'
import {
  type Condition,
  conditions,
  counted,
  difference,
  type Filter,
  matches,
  problemRows,
  type Row,
  roles,
  seedOfInterest,
  sorted,
  sortKeys,
} from './rows.ts'

const job = (name: string, role: Role, seed: number | null) => ({ name, role, seed }) as JobView
const jobs = [
  job('base-1', 'base', null),
  job('base-shared', 'base-shared', null),
  job('baseline-s17', 'baseline', 17),
  job('recipe-s17', 'recipe', 17),
  job('baseline-s18', 'baseline', 18),
  job('recipe-s18', 'recipe', 18),
]

/** A board as letters: R right, w wrong, c wrong and cut; notes, then replies. */
interface Made {
  job: string
  problem: number
  posts: string
  step?: number
}

function columnsOf(made: Made[], copies: number): BoardColumns {
  const bits: Record<string, number> = { R: bit.right, w: 0, c: bit.cut }
  const count = Math.max(-1, ...made.map(({ problem }) => problem)) + 1
  for (const { posts } of made) if (posts.length !== 2 * copies) throw new Error(posts)
  return {
    job: made.map(({ job: name }) => jobs.findIndex((each) => each.name === name)),
    step: made.map(({ step = 0 }) => step),
    problem: made.map(({ problem }) => problem),
    flags: made.map(({ posts }) => [...posts].map((letter) => encodeFlag(bits[letter])).join('')).join(''),
    problems: {
      id: Array.from({ length: count }, (_, i) => `id-${i}`),
      question: Array.from({ length: count }, (_, i) => `How many is ${i}?`),
      gold: Array.from({ length: count }, (_, i) => `${i * 1000}`),
    },
  }
}

const everything: Filter = { conditions: new Set(), where: 'trained', search: '', inTexts: null }

describe('rows', () => {
  it('count rescued, misled and cut as the reference defines them', () => {
    const columns = columnsOf([{ job: 'recipe-s17', problem: 0, posts: 'wRcR' + 'RwwR' }], 4)
    const [row] = problemRows(columns, jobs, 4)
    // Copy 1: wrong note, right reply. Copy 2: right note, wrong reply. Copy 3 is wrong twice, and its note was cut.
    expect(row.tallies.recipe).toEqual({ replies: 4, right: 2, rescued: 1, misled: 1, notesCut: 1 })
    expect(counted(row, 'trained', 'rescued')).toBe(1)
    expect(counted(row, 'baseline', 'rescued')).toBe(0)
    expect(difference(row)).toBeNull()
  })

  it('leave training out', () => {
    expect(
      problemRows(columnsOf([{ job: 'recipe-s17', problem: 0, posts: 'wR', step: 3 }], 1), jobs, 1),
    ).toEqual([])
  })

  it('say where arms and seeds disagree, and count a draw for neither', () => {
    const rows = problemRows(
      columnsOf(
        [
          // Problem 0: the arms disagree. Problem 1: the recipe's seeds do. Problem 2: a draw against right.
          { job: 'baseline-s17', problem: 0, posts: 'wwww' },
          { job: 'recipe-s17', problem: 0, posts: 'wwRR' },
          { job: 'recipe-s17', problem: 1, posts: 'wwRR' },
          { job: 'recipe-s18', problem: 1, posts: 'wwww' },
          { job: 'baseline-s17', problem: 2, posts: 'wwRw' },
          { job: 'recipe-s17', problem: 2, posts: 'wwRR' },
        ],
        2,
      ),
      jobs,
      2,
    )
    expect(rows.map((row) => [row.armsDisagree, row.seedsDisagree])).toEqual([
      [true, false],
      [false, true],
      [false, false],
    ])
  })

  it('open at the seed in which a row shows what is looked for', () => {
    const columns = columnsOf(
      [
        { job: 'recipe-s17', problem: 0, posts: 'RR' },
        { job: 'recipe-s18', problem: 0, posts: 'wR' },
      ],
      1,
    )
    const [row] = problemRows(columns, jobs, 1)
    const rescued = { ...everything, conditions: new Set<Condition>(['rescued']) }
    expect(seedOfInterest(row, rescued, columns, jobs, 1)).toBe(18)
    expect(seedOfInterest(row, everything, columns, jobs, 1)).toBe(17)
    expect(seedOfInterest(row, everything, columns, jobs.slice(0, 2), 1)).toBeNull()
  })
})

const boards = fc
  .array(
    fc.record({
      job: fc.constantFrom(...jobs.map(({ name }) => name)),
      problem: fc.nat(5),
      posts: fc.string({ unit: fc.constantFrom('R', 'w', 'c'), minLength: 4, maxLength: 4 }),
    }),
    { maxLength: 30 },
  )
  // A job poses a problem once.
  .map((made) => [...new Map(made.map((each) => [`${each.job} ${each.problem}`, each])).values()])

describe('filters and sorting', () => {
  it('keep exactly the rows that meet every condition, with every combination', () => {
    fc.assert(
      fc.property(
        boards,
        fc.subarray([...conditions]),
        fc.constantFrom('trained', ...roles),
        (made, chosen, where) => {
          const rows = problemRows(columnsOf(made, 2), jobs, 2)
          const filter: Filter = { ...everything, conditions: new Set(chosen), where }
          const named = where === 'trained' ? ['baseline', 'recipe'] : [where]
          const has = (row: Row, holds: (note: string, reply: string) => boolean) =>
            made.some(
              ({ job: name, problem, posts }) =>
                problem === row.problem &&
                named.includes(jobs.find((each) => each.name === name)!.role) &&
                [0, 1].some((copy) => holds(posts[copy], posts[2 + copy])),
            )
          const meets: Record<Condition, (row: Row) => boolean> = {
            rescued: (row) => has(row, (note, reply) => note !== 'R' && reply === 'R'),
            misled: (row) => has(row, (note, reply) => note === 'R' && reply !== 'R'),
            cut: (row) => has(row, (note) => note === 'c'),
            arms: (row) => row.armsDisagree,
            seeds: (row) => row.seedsDisagree,
          }
          const expected = rows.filter((row) => chosen.every((condition) => meets[condition](row)))
          expect(rows.filter((row) => matches(row, filter))).toEqual(expected)
        },
      ),
    )
  })

  it('search in questions, ids and answers in any case, and in texts that were found', () => {
    const rows = problemRows(
      columnsOf(
        [0, 1, 2].map((problem) => ({ job: 'base-1', problem, posts: 'wR' })),
        1,
      ),
      jobs,
      1,
    )
    const found = (search: string, inTexts: number[] | null = null) =>
      rows
        .filter((row) => matches(row, { ...everything, search, inTexts: inTexts && new Set(inTexts) }))
        .map(({ problem }) => problem)
    expect(found('MANY is 1')).toEqual([1])
    expect(found('id-2')).toEqual([2])
    expect(found('2000')).toEqual([2])
    expect(found('nowhere', [0])).toEqual([0])
    expect(found('is 1', [0])).toEqual([0, 1])
  })

  it('sort all rows and lose none, keeping the order of equals', () => {
    fc.assert(
      fc.property(boards, fc.constantFrom(...sortKeys), fc.boolean(), (made, key, descending) => {
        const rows = problemRows(columnsOf(made, 2), jobs, 2)
        const result = sorted(rows, { key, descending }, 'trained')
        expect(new Set(result)).toEqual(new Set(rows))
        expect(result).toHaveLength(rows.length)
        if (key === 'rescued') {
          const counts = result.map((row) => counted(row, 'trained', 'rescued'))
          expect(counts).toEqual(counts.toSorted((a, b) => (descending ? b - a : a - b)))
          const order = (row: Row) => rows.indexOf(row)
          for (let i = 1; i < result.length; i++) {
            if (counts[i] === counts[i - 1]) expect(order(result[i])).toBeGreaterThan(order(result[i - 1]))
          }
        }
      }),
    )
  })
})
