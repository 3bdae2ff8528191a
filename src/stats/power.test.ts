import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { random } from '../random.ts'
import { layOut, type SeedScores } from './design.ts'
import { memberOf } from './family.ts'
import { pValue } from './interval.ts'
import {
  type Components,
  componentsOf,
  detectableEffect,
  expectedComponents,
  fewestSeeds,
  minutesOf,
  plan,
  plannedComponents,
  predict,
  seedsToResolve,
  seedsToResolveEach,
} from './power.ts'
import { memberP } from './simultaneous.ts'
import { drawArm } from './testing/draw-arm.ts'

const components: Components = { rollout: 0.12, seedByProblem: 0.02, armByProblem: 0.02, seed: 0.0002 }
const sizes = { problems: 200, seeds: 4, rollouts: 4 }

describe('predict', () => {
  it('gives chances that grow with the effect, alike in both directions', () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 0.2, noNaN: true }),
        fc.integer({ min: 5, max: 400 }),
        fc.integer({ min: 2, max: 8 }),
        fc.integer({ min: 1, max: 4 }),
        (effect, problems, seeds, rollouts) => {
          const here = { problems, seeds, rollouts }
          const at = predict(effect, components, here)
          expect(at.moved).toBeGreaterThanOrEqual(0)
          expect(at.moved + at.flat).toBeLessThanOrEqual(1 + 1e-9)
          expect(predict(effect + 0.02, components, here).moved).toBeGreaterThanOrEqual(at.moved)
          expect(predict(-effect, components, here)).toEqual(at)
        },
      ),
      { numRuns: 15 },
    )
  })

  it('gives a larger chance with more problems, more seeds and more rollouts', () => {
    const chance = (change: Partial<typeof sizes>) => predict(0.07, components, { ...sizes, ...change }).moved
    const steps = [chance({}), chance({ problems: 400 }), chance({ seeds: 8 }), chance({ rollouts: 8 })]
    expect(Math.min(...steps.slice(1))).toBeGreaterThan(steps[0] + 0.02)
  })

  it('is at most the level where nothing is to be found', () => {
    for (const seeds of [2, 3, 5, 10]) {
      // One direction of two: half of the 5%.
      expect(predict(0, components, { ...sizes, seeds }).moved).toBeLessThan(0.025)
    }
  })

  it('finds what compare does where two seeds cannot show how they spread', () => {
    const [effect, problems, rollouts, sims] = [0.08, 1000, 4, 1500]
    const interaction = components.seedByProblem + components.rollout / rollouts
    const truth = { width: Math.sqrt(components.seed), seeds: 2, problems, interaction }
    const problemsPart = { variance: (interaction + components.armByProblem) / problems, df: problems - 1 }
    const draw = random('power with two seeds')
    let [found, ifAlike] = [0, 0]
    for (let sim = 0; sim < sims; sim++) {
      const sides = [0, 1].map(() => drawArm(draw, { ...truth, armByProblem: components.armByProblem / 2 }))
      const delta = effect + sides[1].mean - sides[0].mean
      const member = memberOf(sides, [], problemsPart, problems)
      if (pValue(delta, member.spread) < 0.05) ifAlike++
      if (memberP(delta, member, { members: [member], shared: [] }) < 0.05) found++
    }
    // So many evaluations of the base that the noise band decides nothing.
    const { moved } = predict(effect, components, { problems, seeds: 2, rollouts }, { baseRuns: 30 })
    expect(Math.abs(moved - found / sims)).toBeLessThan(0.05)
    expect(ifAlike / sims).toBeGreaterThan(moved + 0.05)
  })

  it('one seed an arm resolves nothing', () => {
    expect(predict(0.5, components, { ...sizes, seeds: 1 })).toEqual({ moved: 0, flat: 0 })
    expect(detectableEffect(components, { ...sizes, seeds: 1 })).toBeNull()
  })

  it('refuses sizes that are none', () => {
    expect(() => predict(0.1, components, { ...sizes, problems: 0 })).toThrow(
      /whole number of problems.*got 0/,
    )
    expect(() => predict(0.1, components, { ...sizes, seeds: 2.5 })).toThrow(/seeds.*2.5/)
  })
})

describe('families', () => {
  // Eight evaluations of the base: a noise band that does not decide.
  const chance = (options: { arms?: number; contrasts?: number }) =>
    predict(0.08, components, { ...sizes, seeds: 2 }, { baseRuns: 8, ...options }).moved

  it('gain from the seeds of other arms, and pay for the contrasts that are read', () => {
    const [pair, only, all] = [chance({}), chance({ arms: 8, contrasts: 1 }), chance({ arms: 8 })]
    expect(only).toBeGreaterThan(pair + 0.02)
    expect(all).toBeLessThan(only - 0.05)
    expect(chance({ arms: 8, contrasts: 7 })).toBe(all)
    expect(chance({ arms: 2, contrasts: 1 })).toBe(pair)
  })

  it('need larger effects and more minutes', () => {
    expect(detectableEffect(components, sizes, { arms: 4 })!).toBeGreaterThan(
      detectableEffect(components, sizes, { arms: 4, contrasts: 1 })!,
    )
    const speed = { minutesPerTraining: 1, secondsPerRollout: 0.06 }
    // Three arms of four seeds, three evaluations of the base and two of it under the other arms' protocols.
    expect(minutesOf(sizes, speed, 3, 3)).toBeCloseTo(12 + 17 * 0.8, 9)
    const options = { rollouts: [4], maxProblems: 200 }
    const [first] = plan(0.12, components, { ...options, arms: 3, speed })
    expect(first.power).toBeGreaterThanOrEqual(0.8)
    expect(first.minutes).toBeCloseTo(minutesOf(first, speed, 3, 3), 9)
  })

  it('have no more contrasts than pairs of arms', () => {
    expect(() => chance({ arms: 3, contrasts: 4 })).toThrow(/3 arms and 4 contrasts/)
    expect(() => chance({ arms: 1 })).toThrow(/at least 2/)
    expect(() => chance({ arms: 3, contrasts: 0 })).toThrow(/whole number of contrasts/)
  })
})

describe('planning', () => {
  it('the detectable effect is found with 80% power', () => {
    const effect = detectableEffect(components, sizes)!
    expect(predict(effect, components, sizes).moved).toBeCloseTo(0.8, 3)
  })

  it('every plan has the power, the cheapest comes first', () => {
    const speed = { minutesPerTraining: 1, secondsPerRollout: 0.02 }
    const plans = plan(0.06, components, { speed })
    expect(plans.length).toBeGreaterThan(2)
    for (const { power, minutes, seeds, problems, rollouts } of plans) {
      expect(power).toBeGreaterThanOrEqual(0.8)
      const evaluations = 2 * seeds + 3 + 1
      expect(minutes).toBeCloseTo(2 * seeds + (evaluations * problems * rollouts * 0.02) / 60, 9)
    }
    const minutes = plans.map((each) => each.minutes!)
    expect(minutes).toEqual([...minutes].sort((a, b) => a - b))
  })

  it('never asks for more problems than there are', () => {
    const plans = plan(0.1, components, { maxProblems: 150, rollouts: [4] })
    expect(plans.length).toBeGreaterThan(0)
    expect(plans.every(({ problems, rollouts }) => problems <= 150 && rollouts === 4)).toBe(true)
  })

  it('has no plan for an effect out of reach, and none is asked for without an effect', () => {
    expect(plan(0.001, components, { maxProblems: 30 })).toEqual([])
    expect(() => plan(0, components)).toThrow(/effect other than 0/)
  })
})

describe('fewestSeeds', () => {
  it('is the fewest that do, and no more than the run has where it has enough', () => {
    const needed = fewestSeeds(0.08, components, { ...sizes, seeds: 2 })!
    const chance = (seeds: number) => {
      const { moved, flat } = predict(0.08, components, { ...sizes, seeds })
      return moved + flat
    }
    expect(needed).toBeGreaterThan(2)
    expect(chance(needed)).toBeGreaterThanOrEqual(0.8)
    expect(chance(needed - 1)).toBeLessThan(0.8)
    expect(fewestSeeds(0.3, components, sizes)).toBe(sizes.seeds)
  })

  it('resolves nothing as flat, with problems enough', () => {
    const seeds = fewestSeeds(0, components, { problems: 1000, seeds: 2, rollouts: 4 })!
    expect(predict(0, components, { problems: 1000, seeds, rollouts: 4 }).flat).toBeGreaterThan(0.7)
  })

  it('says when seeds cannot do it', () => {
    expect(fewestSeeds(0.02, components, { problems: 20, seeds: 2, rollouts: 1 })).toBeNull()
  })
})

describe('seedsToResolve', () => {
  const filled = (seeds: number, chance: number, key: string): SeedScores[] =>
    Array.from({ length: seeds }, (_, seed) => ({
      seed,
      problems: Array.from({ length: 100 }, (_, p) => {
        const draw = random(key, seed, p)
        return { id: `${p}`, scores: [0, 0].map(() => (draw.next() < chance ? 1 : 0)) }
      }),
    }))

  it('says how many more seeds a run needs', () => {
    const { seeds, why } = seedsToResolve({
      baseline: filled(1, 0.4, 'a'),
      recipe: filled(1, 0.6, 'b'),
      baseRuns: [0.4, 0.41],
    })
    expect(seeds).toBeGreaterThan(1)
    expect(why).toContain(`${seeds} seeds an arm (${seeds! - 1} more)`)
  })

  it('asks for at least one more, and for more where the seeds spread more', () => {
    const wide = { baseline: filled(2, 0.2, 'a'), recipe: filled(2, 0.8, 'b'), baseRuns: [0.4, 0.41] }
    expect(seedsToResolve(wide).seeds).toBe(3)
    const spread = [...filled(1, 0.1, 'a'), { ...filled(1, 0.9, 'c')[0], seed: 1 }]
    expect(seedsToResolve({ ...wide, baseline: spread }).seeds ?? 99).toBeGreaterThan(3)
  })

  it('says so of each contrast of a family', () => {
    const arms = { alone: filled(2, 0.4, 'a'), board: filled(2, 0.55, 'b'), chain: filled(2, 0.8, 'c') }
    const pairs = ['board', 'chain'].map((arm) => ({ arm, against: 'alone' }))
    const [small, large] = seedsToResolveEach({ arms, pairs, baseRuns: [0.4, 0.41] })
    expect(large.seeds).toBeGreaterThan(2)
    expect(small.seeds).toBeGreaterThan(large.seeds!)
    expect(small.why).toMatch(/^If the true difference is as observed \(0\.\d+\), \d+ seeds an arm/)
  })

  it('says when only more problems would do', () => {
    const same = { baseline: filled(2, 0.5, 'a'), recipe: filled(2, 0.52, 'b'), baseRuns: [0.4, 0.41] }
    expect(seedsToResolve({ ...same, flatWithin: 0.0001 })).toEqual({
      seeds: null,
      why: expect.stringContaining('more held-out problems would'),
    })
  })
})

describe('components', () => {
  it('are recovered from data made with them', () => {
    const truth: Components = { rollout: 0.04, seedByProblem: 0.01, armByProblem: 0.03, seed: 0.002 }
    const draw = random('components')
    const [problems, seeds, rollouts] = [800, 30, 3]
    const ability = Array.from({ length: problems }, () => 0.1 * draw.normal())
    const make = (): SeedScores[] => {
      const own = ability.map((a) => 0.5 + a + Math.sqrt(truth.armByProblem / 2) * draw.normal())
      return Array.from({ length: seeds }, (_, seed) => {
        const shift = Math.sqrt(truth.seed) * draw.normal()
        return {
          seed,
          problems: own.map((centre, p) => {
            const cell = centre + shift + Math.sqrt(truth.seedByProblem) * draw.normal()
            const scores = Array.from(
              { length: rollouts },
              () => cell + Math.sqrt(truth.rollout) * draw.normal(),
            )
            // Scores must lie in [0, 1]: squeezed by a known factor around the middle.
            return { id: `${p}`, scores: scores.map((score) => 0.5 + (score - 0.5) / 10) }
          }),
        }
      })
    }
    const got = componentsOf(layOut(make(), make()))
    for (const [name, value] of Object.entries(truth)) {
      const tolerance = name === 'seed' ? 0.5 : 0.15
      expect(Math.abs((100 * got[name as keyof Components]) / value - 1), name).toBeLessThan(tolerance)
    }
  })

  it('plan with the spread between seeds that is expected, the less the more seeds were seen', () => {
    const seeds = (count: number): SeedScores[] =>
      Array.from({ length: count }, (_, seed) => ({ seed, problems: [{ id: 'a', scores: [1, 0] }] }))
    const seedOf = (count: number) => plannedComponents(layOut(seeds(count), seeds(count))).seed
    // No spread was seen: none is known from one seed, and half of it is still expected after two in each arm.
    expect([1, 2, 11].map(seedOf)).toEqual([0.02 ** 2, 0.02 ** 2 / 2, expect.closeTo(0.02 ** 2 / 11, 12)])
  })

  it('are finite with one seed and one rollout', () => {
    const one: SeedScores[] = [
      {
        seed: 1,
        problems: [
          { id: 'a', scores: [1] },
          { id: 'b', scores: [0] },
        ],
      },
    ]
    expect(Object.values(componentsOf(layOut(one, one))).every(Number.isFinite)).toBe(true)
  })

  it('are expected from the base’s rollouts before a run', () => {
    const base = [
      [1, 0, 1, 0],
      [1, 1, 1, 1],
      [0, 0, 0, 1],
      [0, 0, 0, 0],
    ]
    const { rollout, seed } = expectedComponents(base)
    expect(rollout).toBeCloseTo((1 / 3 + 0 + 0.25 + 0) / 4, 12)
    expect(seed).toBeCloseTo(0.0004, 12)
    expect(() => expectedComponents([[1], [0]])).toThrow(/two or more rollouts/)
  })
})
