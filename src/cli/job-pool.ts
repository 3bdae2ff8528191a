/**
 * Jobs at a time on the CPU, each in a process of its own (job-worker.ts): in one process they would wait for each other
 * wherever one of them tokenises, grades or writes.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { UserError } from '../errors.ts'
import type { JobContext, RunEvent } from '../experiment/job.ts'
import type { Job } from '../record/plan.ts'
import type { RunCommand } from '../record/schema.ts'

/** What a worker is to do its jobs with. */
export interface WorkerStart {
  command: RunCommand
  out: string
}

export type WorkerMessage =
  | { type: 'event'; event: RunEvent }
  | { type: 'done' }
  | { type: 'failed'; message: string; user: boolean; stack: string }

export interface JobPool {
  runJob(context: JobContext, job: Job): Promise<void>
  close(): void
}

/** Beside this file, from source or built, whichever runs. */
const worker = fileURLToPath(
  new URL(`./job-worker${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url),
)

/**
 * How V8 collects garbage there. What a lane computes lies in arrays outside the heap, which make V8 look for garbage some
 * five times a second. Its helpers mark a small heap by more work than it takes to stop for it, a tenth of all time, and
 * where every core has a job no core is free for them.
 */
const collecting = ['--single-threaded-gc', '--no-incremental-marking']

export function openJobPool(start: WorkerStart): JobPool {
  const idle: ChildProcess[] = []
  const all = new Set<ChildProcess>()
  const fresh = (): ChildProcess => {
    const execArgv = [...process.execArgv, ...collecting]
    const child = fork(worker, { execArgv, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    all.add(child)
    child.once('exit', () => all.delete(child))
    child.send({ start })
    return child
  }
  return {
    async runJob({ onEvent, signal }, job) {
      const child = idle.pop() ?? fresh()
      let abort = () => {}
      try {
        await new Promise<void>((resolve, reject) => {
          child.once('exit', (code, killed) => {
            reject(new UserError(`the process of ${job.name} ended by itself (${killed ?? `code ${code}`})`))
          })
          child.on('message', (message: WorkerMessage) => {
            if (message.type === 'event') onEvent(message.event)
            else if (message.type === 'done') resolve()
            else reject(failureOf(message))
          })
          abort = () => reject(signal?.reason)
          signal?.addEventListener('abort', abort)
          child.send({ job })
        })
        child.removeAllListeners('message')
        child.removeAllListeners('exit')
        child.once('exit', () => all.delete(child))
        idle.push(child)
      } catch (error) {
        // It may still be at work, and what it keeps is whole at any moment.
        child.removeAllListeners('message')
        child.kill('SIGKILL')
        throw error
      } finally {
        signal?.removeEventListener('abort', abort)
      }
    },
    close() {
      for (const child of all) child.kill('SIGKILL')
    },
  }
}

function failureOf({ message, user, stack }: Extract<WorkerMessage, { type: 'failed' }>): Error {
  const failure = user ? new UserError(message) : new Error(message)
  failure.stack = stack
  return failure
}
