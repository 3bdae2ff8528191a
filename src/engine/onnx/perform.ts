/** Opens the lane that a device asks for, and does jobs in it one after another. */
import { openGpuLane } from './gpu/lane.ts'
import { type Lane, type LaneOptions, openLane } from './lane.ts'
import type { Job } from './pool.ts'

export interface JobRun {
  /** Becomes 1 when the result is no longer wanted. */
  stop: Int32Array
  onTokens(newTokens: number): void
}

/** Does one job at a time: a lane's sessions and buffers belong to the job in hand. */
export function jobRunner(options: LaneOptions): (job: Job, run: JobRun) => Promise<unknown> {
  const opening: Promise<Lane> =
    options.place.device === 'cpu' ? Promise.resolve(openLane(options)) : openGpuLane(options)
  // A lane that cannot be opened says so in answer to the first job.
  opening.catch(() => {})
  let queue: Promise<unknown> = Promise.resolve()
  return (job, run) => {
    const result = queue.then(async () => perform(await opening, job, run))
    queue = result.catch(() => {})
    return result
  }
}

function perform(lane: Lane, job: Job, { stop, onTokens }: JobRun): Promise<unknown> {
  switch (job.kind) {
    case 'overlay':
      return lane.overlay(job)
    case 'score':
      return lane.score(job)
    case 'train':
      return lane.train(job)
    case 'generate': {
      const check = () => {
        if (Atomics.load(stop, 0) !== 0) throw new Error('stopped')
      }
      return lane.generate(job, onTokens, check)
    }
  }
}
