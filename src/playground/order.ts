/** In which order a run's jobs are begun where somebody watches: the arms of a seed together, trainings first. Pure. */
import type { Job } from '../record/plan.ts'

/** The first seed's trainings, what they are compared with, then the other seeds'. */
export function sideBySide(jobs: readonly Job[]): Job[] {
  const bases = jobs.filter(({ seed }) => seed === null)
  const trained = jobs.filter(({ seed }) => seed !== null)
  const first = trained.filter(({ seed }) => seed === trained[0].seed)
  return [...first, ...bases, ...trained.filter((job) => !first.includes(job))]
}
