import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { beginning } from './job-log.ts'
import { type JobFacts, jobStates, secondsLeft, tokensPerSecond } from './progress.ts'
import { sampleMetrics } from './testing/samples.ts'

/** A job of 10 steps and 20 problems, whose steps take one second each. */
function job(
  name: string,
  changes: Partial<JobFacts> & { steps?: number; done?: number; evaluated?: number } = {},
): JobFacts {
  const { steps = 10, done, evaluated = 0, ...rest } = changes
  const progress =
    done === undefined ? null : { ...beginning(steps > 0), steps: done, trained: done === steps, evaluated }
  if (progress && evaluated > 0) progress.seconds.evaluation = evaluated / 2
  const metrics = Array.from({ length: done ?? 0 }, (_, i) => sampleMetrics(i + 1))
  return { name, steps, problems: 20, progress, metrics, failed: false, ...rest }
}

describe('jobStates', () => {
  const jobs = [
    job('base', { steps: 0, done: 0, evaluated: 20 }),
    job('a', { done: 3 }),
    job('b', { done: 10, evaluated: 4 }),
    job('c'),
    job('d', { done: 2 }),
    job('e', { done: 2, failed: true }),
  ]

  it('is each one of those at work, however many there are', () => {
    expect(jobStates(jobs, ['a', 'b', 'c'])).toEqual([
      'finished',
      'running',
      'running',
      'running',
      'waiting',
      'failed',
    ])
  })

  it('says which jobs stopped where nothing is at work', () => {
    expect(jobStates(jobs, null)).toEqual(['finished', 'stopped', 'stopped', 'waiting', 'stopped', 'failed'])
  })

  it('takes a job that is tried again for one at work, and a finished one for finished', () => {
    expect(jobStates([jobs[5], jobs[0]], ['e', 'base'])).toEqual(['running', 'finished'])
  })

  it('takes a job for over when its training is, whatever steps were planned', () => {
    const early = job('early', { done: 4 })
    early.progress = { ...early.progress!, trained: true, evaluated: 20 }
    expect(jobStates([early], null)).toEqual(['finished'])
    expect(secondsLeft([early], null)).toEqual({ jobs: [0], all: 0 })
  })
})

describe('tokensPerSecond', () => {
  it('is the pace of the latest eight steps', () => {
    expect(tokensPerSecond([])).toBeNull()
    // Steps of one second each, which draw 40 tokens and their own number.
    expect(tokensPerSecond([sampleMetrics(2)])).toBe(42)
    expect(tokensPerSecond(Array.from({ length: 10 }, (_, i) => sampleMetrics(i + 1)))).toBe(40 + 6.5)
  })
})

describe('secondsLeft', () => {
  it('is unknown before there is a pace', () => {
    expect(secondsLeft([job('a'), job('b')], ['a'])).toEqual({ jobs: [null, null], all: null })
  })

  it('divides the work over the jobs at a time', () => {
    const four = ['a', 'b', 'c', 'd'].map((name) => job(name, { done: 10, evaluated: 4 }))
    // 16 problems of half a second each.
    expect(secondsLeft(four, ['a', 'b', 'c', 'd'])).toEqual({ jobs: [8, 8, 8, 8], all: 8 })
    expect(secondsLeft(four, ['a', 'b'])).toMatchObject({ all: 16 })
    expect(secondsLeft(four, ['a'])).toMatchObject({ all: 32 })
    expect(secondsLeft(four, null)).toMatchObject({ all: 32 })
  })

  it('takes the pace of the others where a job has none', () => {
    const jobs = [job('a', { done: 10, evaluated: 4 }), job('b', { done: 5 }), job('c')]
    expect(secondsLeft(jobs, ['a', 'b']).jobs).toEqual([8, 15, 20])
    expect(secondsLeft(jobs, ['a', 'b']).all).toBe(28)
  })

  it('lets a job that failed wait for the next run', () => {
    const jobs = [job('a', { done: 10, evaluated: 4 }), job('b', { done: 5, failed: true })]
    expect(secondsLeft(jobs, ['a']).all).toBe(8)
    expect(secondsLeft(jobs, null).all).toBe(23)
  })

  it('lies between the longest job and all of them one after another', () => {
    const some = fc.array(fc.record({ done: fc.integer({ min: 1, max: 9 }), atWork: fc.boolean() }), {
      minLength: 1,
    })
    fc.assert(
      fc.property(some, (specs) => {
        const jobs = specs.map(({ done }, i) => job(`j${i}`, { done, problems: 0 }))
        const atWork = jobs.filter((_, i) => specs[i].atWork).map(({ name }) => name)
        const { jobs: each, all } = secondsLeft(jobs, atWork)
        const total = each.reduce((sum: number, seconds) => sum + seconds!, 0)
        expect(all).toBeGreaterThanOrEqual(Math.max(...each.map((seconds) => seconds!)))
        expect(all).toBeGreaterThanOrEqual(total / Math.max(1, atWork.length) - 1e-9)
        expect(all).toBeLessThanOrEqual(total + 1e-9)
      }),
    )
  })
})
