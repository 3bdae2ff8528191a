import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Results } from '../record/results.ts'
import { writeTinyModel } from '../selftest/tiny-model.ts'
import { measurePilot, type Pilot, pilotFrom, powerAfter, powerBefore } from './power.ts'
import { runExperiment } from './run.ts'
import { tinyExperiment } from './testing/tiny-experiment.ts'

let folder: string
let model: string
let out: string
let results: Results

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'power-'))
  model = join(folder, 'model')
  await writeTinyModel(model, 1)
  out = join(folder, 'run')
  results = await runExperiment(tinyExperiment(model), { out })
})
afterAll(() => rm(folder, { recursive: true }))

describe('before a run', () => {
  it('is timed on the experiment’s own model and task', async () => {
    const experiment = tinyExperiment(model)
    const phases: string[] = []
    const pilot = await measurePilot(experiment, { onPhase: (phase) => phases.push(phase) })
    expect(phases).toHaveLength(3)
    // Four scores of 0 and 1 vary by a third at most.
    expect(pilot.components.rollout).toBeGreaterThan(0)
    expect(pilot.components.rollout).toBeLessThanOrEqual(1 / 3)
    const { configured } = powerBefore(experiment, pilot, 0.3, { holdout: 6 })
    expect(configured).toMatchObject({ problems: 6, seeds: 2, rollouts: 4 })
    expect(configured.minutes).toBeGreaterThan(0)
    // A run of 6 problems is over in seconds.
    expect(configured.minutes).toBeLessThan(1)
  })

  const pilot: Pilot = {
    components: { rollout: 0.12, seedByProblem: 0.03, armByProblem: 0.03, seed: 0.0004 },
    speed: { minutesPerTraining: 2, secondsPerRollout: 0.01 },
    source: 'Made up.',
    warnings: [],
  }

  it('plans with the replies that a board has, and no more problems than there are', () => {
    const { plans, configured } = powerBefore(tinyExperiment(model), pilot, 0.1, {
      holdout: 120,
      maxProblems: 200,
    })
    expect(plans.length).toBeGreaterThan(0)
    for (const plan of plans) {
      expect(plan.rollouts).toBe(4)
      expect(plan.problems).toBeLessThanOrEqual(200)
      expect(plan.power).toBeGreaterThanOrEqual(0.8)
    }
    expect(plans[0].minutes).toBe(Math.min(...plans.map(({ minutes }) => minutes!)))
    expect(configured.power).toBeLessThan(0.8)
    expect(configured.detectable!).toBeGreaterThan(0.1)
  })

  it('takes variances and times from an earlier run, scaled to this experiment’s steps', async () => {
    const same = await pilotFrom(out, tinyExperiment(model))
    const longer = await pilotFrom(out, tinyExperiment(model, { train: { steps: 30, problemsPerStep: 4 } }))
    expect(same.speed.minutesPerTraining).toBeGreaterThan(0)
    expect(longer.speed.minutesPerTraining / same.speed.minutesPerTraining).toBeCloseTo(20, 9)
    expect(longer.components).toEqual(same.components)
    expect(same.warnings).toEqual([])
    const other = await pilotFrom(out, tinyExperiment('another-model'))
    expect(other.warnings).toEqual([expect.stringContaining('another-model')])
    await expect(pilotFrom(model, tinyExperiment(model))).rejects.toThrow(/is no run folder/)
  })
})

describe('after a run', () => {
  it('says how many more seeds would resolve it, and what that costs', async () => {
    const after = await powerAfter(out)
    expect(after).toMatchObject({
      arm: 'recipe',
      against: 'baseline',
      verdict: results.contrasts[0].verdict,
      delta: results.contrasts[0].delta,
      seeds: 2,
      problems: 6,
    })
    expect(after.toResolve.why).toBe(results.contrasts[0].toResolve?.why)
    const { trainMinutes, evaluationMinutes } = results.timing.jobs['baseline-s17']
    expect(after.more[0].seeds).toBe(3)
    // One more seed in each arm takes about what two of the trained jobs took.
    const two = 2 * (trainMinutes + evaluationMinutes)
    expect(after.more[0].minutes / two).toBeGreaterThan(0.2)
    expect(after.more[0].minutes / two).toBeLessThan(5)
    expect(after.more[1].minutes / after.more[0].minutes).toBeCloseTo(2, 9)
  })

  it('answers for an effect of one’s own', async () => {
    const { toResolve } = await powerAfter(out, 0.9)
    expect(toResolve.why).toMatch(/true difference is 0\.9/)
    expect((await powerAfter(out, 0.01)).toResolve).toMatchObject({
      seeds: null,
      minutes: null,
      why: expect.stringContaining('more held-out problems'),
    })
  })

  it('needs both arms', async () => {
    const half = join(folder, 'half')
    await runExperiment(tinyExperiment(model, { seeds: [17] }), { out: half, arms: ['baseline'] })
    await expect(powerAfter(half)).rejects.toThrow(/two arms/)
  })
})
