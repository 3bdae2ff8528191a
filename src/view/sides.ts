/** What a run compares, as a record implies it: the bases, the arms, and which job is of which. Pure. */
import { type Job, planBases, planJobs } from '../record/plan.ts'
import type { RunRecord } from '../record/schema.ts'
import type { Side } from './types.ts'

/** A job with its place among the sides, and the training steps that its arm's settings give it. */
export interface SidedJob extends Job {
  side: number
  steps: number
}

/** Bases first, then arms. */
export function sidesOf(record: RunRecord): Side[] {
  const { identity, arms } = record
  const bases = planBases(record)
  const titles = baseTitles(
    bases.map(({ arms }) => ({ arms, protocol: identity.arms[arms[0]].protocol.name })),
  )
  const board = (arm: string) => {
    const { name, seats, rounds, final } = identity.arms[arm].protocol
    return {
      protocol: name,
      seats: seats.map((seat) => seat.name),
      rounds: rounds.map(({ name, speakers, sees }) => ({ name, speakers, sees })),
      final,
    }
  }
  return [
    ...bases.map(
      ({ name, arms }, i): Side => ({
        name,
        title: titles[i],
        arm: null,
        arms,
        base: i,
        ...board(arms[0]),
      }),
    ),
    ...arms.map((arm, i): Side => {
      const base = bases.findIndex((each) => each.arms.includes(arm))
      return { name: arm, title: arm, arm: i, arms: [arm], base, ...board(arm) }
    }),
  ]
}

/** How bases are called: by protocol, and by an arm too where two share a protocol's name and differ in who plays it. */
export function baseTitles(bases: readonly { protocol: string; arms: readonly string[] }[]): string[] {
  return bases.map(({ protocol, arms }) => {
    const alike = bases.filter((other) => other.protocol === protocol).length > 1
    return `base, ${protocol}${alike ? ` (${arms[0]})` : ''}`
  })
}

/** The run's jobs, in the order in which they are run. */
export function sidedJobs(record: RunRecord, sides: readonly Side[]): SidedJob[] {
  return planJobs(record).map((job) => ({
    ...job,
    side: sides.findIndex(
      ({ arm, arms }) => (arm === null) === (job.seed === null) && arms.includes(job.arm),
    ),
    steps: job.seed === null ? 0 : record.identity.arms[job.arm].train.steps,
  }))
}
