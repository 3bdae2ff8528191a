import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { random } from '../random.ts'
import { compare } from './compare.ts'
import { type SeedScores, tabulate } from './design.ts'
import { type Contrast, compareFamily, differenceOf, type FamilyInput, familyOf } from './family.ts'
import { pValue } from './interval.ts'
import { familyP } from './simultaneous.ts'

const baseRuns = [0.521, 0.533, 0.527]

/** Seeds of one arm: each answers with its own rate on problems of shared difficulty. */
function armOf(rates: readonly number[], problems: number, rollouts: number, key: string): SeedScores[] {
  return rates.map((rate, seed) => ({
    seed,
    problems: Array.from({ length: problems }, (_, p) => {
      const draw = random(key, seed, p)
      const chance = rate + 0.6 * (random('difficulty', p).next() - 0.5) * Math.min(rate, 1 - rate)
      return { id: `p${p}`, scores: Array.from({ length: rollouts }, () => (draw.next() < chance ? 1 : 0)) }
    }),
  }))
}

const names = ['alone', 'board', 'chain', 'debate', 'echo']

/** Two to five arms of one to four seeds, all against the first, with whatever scores. */
const input: fc.Arbitrary<FamilyInput> = fc
  .record({
    arms: fc.integer({ min: 2, max: 5 }),
    problems: fc.integer({ min: 1, max: 10 }),
    alpha: fc.constantFrom(0.05, 0.01),
  })
  .chain(({ arms, problems, alpha }) => {
    const scores = fc.array(fc.constantFrom(0, 1), { minLength: 1, maxLength: 2 })
    const seeds = fc.array(fc.array(scores, { minLength: problems, maxLength: problems }), {
      minLength: 1,
      maxLength: 4,
    })
    return fc.array(seeds, { minLength: arms, maxLength: arms }).map((drawn): FamilyInput => {
      const named = drawn.map((rows, arm): [string, SeedScores[]] => [
        names[arm],
        rows.map((row, seed) => ({ seed, problems: row.map((cell, p) => ({ id: `${p}`, scores: cell })) })),
      ])
      const pairs = named.slice(1).map(([arm]) => ({ arm, against: names[0] }))
      return { arms: Object.fromEntries(named), pairs, baseRuns, alpha, draws: 50 }
    })
  })

const excludesZero = ({ ci95: [low, high] }: Contrast) => low > 0 || high < 0

describe('a family of contrasts, whatever the data', () => {
  it('of two arms is what compare says of them, to the bit', () => {
    fc.assert(
      fc.property(input, ({ arms, alpha }) => {
        const [baseline, recipe] = Object.values(arms)
        const two = { baseRuns, alpha, draws: 50 }
        const expected = compare({ ...two, baseline, recipe })
        const arm = { arm: 'recipe', against: 'baseline' }
        const [found] = compareFamily({ ...two, arms: { baseline, recipe }, pairs: [arm] })
        expect(found).toMatchObject({
          delta: expected.delta,
          ci95: expected.ci95,
          p: expected.p,
          verdict: expected.verdict,
          why: expected.why,
          smallestEffect: expected.smallestEffect,
          parts: expected.parts,
          warnings: expected.warnings,
        })
        const [renamed] = compareFamily({
          ...two,
          arms: { a: baseline, b: recipe },
          pairs: [{ arm: 'b', against: 'a' }],
        })
        expect([renamed.ci95, renamed.p, renamed.verdict]).toStrictEqual([found.ci95, found.p, found.verdict])
      }),
      { numRuns: 20 },
    )
  })

  it('does not depend on the order of arms or pairs, nor on names', () => {
    fc.assert(
      fc.property(input, (data) => {
        const rename = (name: string) => `x ${name}`
        const reversed = compareFamily({
          ...data,
          arms: Object.fromEntries(
            Object.entries(data.arms)
              .reverse()
              .map(([name, seeds]) => [rename(name), seeds]),
          ),
          pairs: [...data.pairs]
            .reverse()
            .map(({ arm, against }) => ({ arm: rename(arm), against: rename(against) })),
        }).reverse()
        compareFamily(data).forEach((contrast, i) => {
          expect(reversed[i].arm).toBe(rename(contrast.arm))
          expect(reversed[i].delta).toBeCloseTo(contrast.delta, 12)
          expect(reversed[i].ci95[0]).toBeCloseTo(contrast.ci95[0], 9)
          expect(reversed[i].p).toBeCloseTo(contrast.p, 9)
          expect(reversed[i].verdict).toBe(contrast.verdict)
        })
      }),
      { numRuns: 20 },
    )
  })

  it('is wider at a smaller level, and its p-values are the same', () => {
    fc.assert(
      fc.property(input, (data) => {
        const [five, one] = [0.05, 0.01].map((alpha) => compareFamily({ ...data, alpha }))
        five.forEach((contrast, i) => {
          expect(one[i].ci95[0]).toBeLessThanOrEqual(contrast.ci95[0])
          expect(one[i].ci95[1]).toBeGreaterThanOrEqual(contrast.ci95[1])
          expect(one[i].p).toBe(contrast.p)
        })
      }),
      { numRuns: 20 },
    )
  })

  it('is never wider than Bonferroni, nor narrower than each contrast as the only one', () => {
    fc.assert(
      fc.property(input, (data) => {
        const { pairs, alpha = 0.05 } = data
        compareFamily(data).forEach((contrast, i) => {
          const only = (level: number) => compareFamily({ ...data, pairs: [pairs[i]], alpha: level })[0]
          const [single, bonferroni] = [only(alpha), only(alpha / pairs.length)]
          expect(contrast.ci95[0]).toBeGreaterThanOrEqual(bonferroni.ci95[0] - 1e-9)
          expect(contrast.ci95[1]).toBeLessThanOrEqual(bonferroni.ci95[1] + 1e-9)
          expect(contrast.ci95[0]).toBeLessThanOrEqual(single.ci95[0] + 1e-9)
          expect(contrast.p).toBeLessThanOrEqual(Math.min(1, pairs.length * single.p) + 1e-9)
          expect(contrast.p).toBeGreaterThanOrEqual(single.p * (1 - 2e-3))
        })
      }),
      { numRuns: 20 },
    )
  })

  it('has p below alpha exactly where the interval excludes 0, and no verdict against it', () => {
    fc.assert(
      fc.property(input, (data) => {
        for (const contrast of compareFamily(data)) {
          if (Math.abs(contrast.p - data.alpha!) < 1e-9) continue
          expect(excludesZero(contrast)).toBe(contrast.p < data.alpha!)
          if (contrast.verdict.startsWith('moved')) expect(excludesZero(contrast)).toBe(true)
        }
      }),
      { numRuns: 20 },
    )
  })
})

describe('the spread between seeds', () => {
  // On 400 problems, seeds 0.05 apart in every arm: they are nearly all there is.
  const spread = (centre: number, key: string) => armOf([centre - 0.05, centre + 0.05], 400, 8, key)
  const arms = {
    alone: spread(0.5, 'a'),
    board: spread(0.6, 'b'),
    chain: spread(0.5, 'c'),
    debate: spread(0.5, 'd'),
  }
  const width = ({ ci95: [low, high] }: { ci95: [number, number] }) => high - low

  it('is pooled, so that four arms of two seeds tell more than two, even read all at once', () => {
    const two = compare({ baseline: arms.alone, recipe: arms.board, baseRuns })
    const pairs = ['board', 'chain', 'debate'].map((arm) => ({ arm, against: 'alone' }))
    const [only] = compareFamily({ arms, pairs: pairs.slice(0, 1), baseRuns })
    const [first] = compareFamily({ arms, pairs, baseRuns })
    expect(only.pooled).toBe(true)
    expect(only.parts.seeds!.df).toBe(4)
    expect(width(only)).toBeLessThan(0.75 * width(two))
    expect(width(first)).toBeLessThan(width(two))
  })

  it('is not pooled with arms that spread less', () => {
    const still = (key: string) => armOf([0.5, 0.5], 400, 8, key)
    const mixed = { alone: arms.alone, board: arms.board, chain: still('e'), debate: still('f') }
    const [contrast] = compareFamily({ arms: mixed, pairs: [{ arm: 'board', against: 'alone' }], baseRuns })
    const two = compare({ baseline: arms.alone, recipe: arms.board, baseRuns })
    expect(contrast.pooled).toBe(false)
    expect(contrast.parts.seeds!.standardError).toBe(two.parts.seeds!.standardError)
    expect(contrast.parts.seeds!.df).toBeLessThanOrEqual(2)
    expect(width(contrast)).toBeGreaterThanOrEqual(width(two))
  })

  it('of an arm with few seeds is not taken from one with many that spread less', () => {
    const many = armOf(Array(12).fill(0.5), 100, 4, 'many')
    const two = compare({ baseline: many.slice(0, 2), recipe: arms.board.map(first100), baseRuns })
    const unequal = compare({ baseline: many, recipe: arms.board.map(first100), baseRuns })
    expect(unequal.parts.seeds!.df).toBeLessThan(2)
    expect(width(unequal)).toBeGreaterThan(width(two))
  })

  const first100 = ({ seed, problems }: SeedScores) => ({ seed, problems: problems.slice(0, 100) })
})

describe('the words', () => {
  const arms = {
    alone: armOf([0.4, 0.41, 0.4], 200, 4, 'a'),
    board: armOf([0.6, 0.61, 0.6], 200, 4, 'b'),
    chain: armOf([0.6], 200, 4, 'c'),
  }

  it('name the arms', () => {
    const [up, down, single] = compareFamily({
      arms: { ...arms, worse: arms.alone },
      pairs: [
        { arm: 'board', against: 'alone' },
        { arm: 'worse', against: 'board' },
        { arm: 'chain', against: 'alone' },
      ],
      baseRuns,
    })
    expect(up).toMatchObject({ verdict: 'moved', arm: 'board', against: 'alone' })
    expect(up.why).toMatch(/^board is better than alone: the difference \+0\.\d{3} has the interval/)
    expect(down.verdict).toBe('moved the wrong way')
    expect(down.why).toMatch(/^worse is worse than board: /)
    expect(single.verdict).toBe('unresolved')
    expect(single.why).toMatch(/one training seed in chain,/)
  })

  it('warn of the two arms of a contrast alone', () => {
    const facts = { grader: 'number v1', sampling: { temperature: 0.9 }, cutShare: 0.02 }
    const [same, other] = compareFamily({
      arms,
      pairs: [
        { arm: 'board', against: 'alone' },
        { arm: 'chain', against: 'alone' },
      ],
      baseRuns,
      facts: { alone: facts, board: facts, chain: { ...facts, sampling: { temperature: 1 } } },
    })
    expect(same.warnings).toEqual([])
    expect(other.warnings).toEqual([
      'The arms were sampled differently: temperature is 0.9 in alone and 1 in chain.',
    ])
  })

  it('say which arm is over-optimised', () => {
    const all = (score: number) =>
      arms.board.map(({ seed, problems }) => ({
        seed,
        problems: problems.map(({ id }) => ({ id, scores: [score] })),
      }))
    const [over, honest] = compareFamily({
      arms: { ...arms, other: arms.board },
      pairs: [
        { arm: 'board', against: 'alone' },
        { arm: 'other', against: 'alone' },
      ],
      baseRuns,
      proxy: { name: 'note accuracy', arms: { alone: all(0), board: all(1), other: all(0) } },
    })
    expect(over).toMatchObject({ verdict: 'unresolved', overOptimised: true })
    expect(over.why).toContain('board is better than alone by +0.')
    expect(honest).toMatchObject({ verdict: 'moved', overOptimised: false, warnings: [] })
  })

  it.each([
    [{ arm: 'nobody', against: 'alone' }, /names the arm nobody, and the arms are alone, board, chain/],
    [{ arm: 'alone', against: 'alone' }, /sets alone against itself/],
    [{ arm: 'alone', against: 'board' }, /alone and board are compared twice/],
  ])('refuse the pair %j', (pair, message) => {
    const pairs = [{ arm: 'board', against: 'alone' }, pair]
    expect(() => compareFamily({ arms, pairs, baseRuns })).toThrow(message)
  })

  it('are none without a pair', () => {
    expect(compareFamily({ arms, pairs: [], baseRuns })).toEqual([])
  })
})

it('keeps the family’s level where each contrast at 5 percent would not', () => {
  const sims = 300
  let [family, each] = [0, 0]
  for (let sim = 0; sim < sims; sim++) {
    const draw = random('null families', sim)
    const arms = Object.fromEntries(
      Array.from({ length: 6 }, (_, arm) => [
        `arm${arm}`,
        Array.from({ length: 8 }, (_, seed) => {
          // Seeds spread so that they, and not the problems, decide.
          const rate = 0.5 + 0.1 * draw.normal()
          const problems = Array.from({ length: 25 }, (_, p) => ({
            id: `${p}`,
            scores: [draw.next() < rate ? 1 : 0, draw.next() < rate ? 1 : 0],
          }))
          return { seed, problems }
        }),
      ]),
    )
    const tables = tabulate(arms)
    const differences = [1, 2, 3, 4, 5].map((arm) =>
      differenceOf(tables, { arm: `arm${arm}`, against: 'arm0' }),
    )
    const found = familyOf(differences, tables)
    const smallest = Math.min(...differences.map(({ delta }, i) => pValue(delta, found.members[i].spread)))
    if (smallest < 0.05) each++
    if (smallest < 0.05 && familyP(smallest, found) < 0.05) family++
  }
  // Of 600: 0.117 and 0.028; of 300, one standard error is 0.019 and 0.010.
  expect(each / sims).toBeGreaterThan(0.08)
  expect(family / sims).toBeLessThan(0.05 + 2 * Math.sqrt((0.05 * 0.95) / sims))
  expect(family).toBeGreaterThan(0)
})

it('compares eight arms of five seeds on 300 problems within two seconds', () => {
  const arms = Object.fromEntries(
    Array.from({ length: 8 }, (_, arm) => [`arm${arm}`, armOf(Array(5).fill(0.5), 300, 4, `${arm}`)]),
  )
  const pairs = Object.keys(arms)
    .slice(1)
    .map((arm) => ({ arm, against: 'arm0' }))
  const started = process.cpuUsage()
  expect(compareFamily({ arms, pairs, baseRuns })).toHaveLength(7)
  expect(process.cpuUsage(started).user / 1e6).toBeLessThan(2)
})
