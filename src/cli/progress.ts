/** Live progress of a run: one changing line on a terminal, few plain lines elsewhere. Writes to a stream only. */
import type { EvaluationProgress } from '../experiment/evaluate.ts'
import type { RunEvent } from '../experiment/job.ts'
import type { DownloadProgress } from '../hub/locate.ts'
import { printableLine } from '../printable.ts'
import { three } from '../report/rows.ts'

/** What it needs of process.stderr. */
export interface ProgressStream {
  isTTY?: boolean
  columns?: number
  write(text: string): unknown
}

/** Away from a terminal a training job says something every so many steps, an evaluation every so many milliseconds. */
const QUIET_STEPS = 10
const QUIET_MS = 60_000

interface JobState {
  name: string
  steps: number
  stepsDone: number
  problems: number
  problemsDone: number
  running: boolean
  /** When its last piece of work ended. */
  mark: number
}

/** An event listener that writes progress, and `end`, which clears the live line. */
export function progress(stream: ProgressStream): { onEvent: (event: RunEvent) => void; end: () => void } {
  const live = stream.isTTY === true
  let jobs: JobState[] = []
  let current: JobState | undefined
  let said = ''
  const rate = tokenRate()
  // Wall-clock seconds a training step and an evaluated problem took: the newest weigh most.
  const pace = { step: average(), problem: average() }
  let drawn = 0

  const clear = () => {
    if (live) stream.write('\r\u001b[K')
  }
  const say = (text: string) => {
    clear()
    stream.write(`${printableLine(text)}\n`)
  }
  const draw = () => {
    const now = performance.now()
    if (!live || now - drawn < 100) return
    drawn = now
    const parts = [position(), said, `${Math.round(rate.perSecond())} tok/s`, eta()]
    const text = printableLine(parts.filter((part) => part !== '').join('  '))
    stream.write(`\r\u001b[K${text.slice(0, (stream.columns || 80) - 1)}`)
  }
  const running = () => jobs.filter((job) => job.running).length
  const position = () => {
    if (!current) return ''
    const others = running() - (current.running ? 1 : 0)
    const place = `[${jobs.indexOf(current) + 1}/${jobs.length}] ${current.name}`
    return others > 0 ? `${place} and ${others} more` : place
  }
  /** Seconds since the job's last piece of work, and the job as the one that is spoken of. */
  const lap = (name: string) => {
    current = jobs.find((job) => job.name === name)
    const now = performance.now()
    const seconds = (now - (current?.mark ?? now)) / 1000
    if (current) current.mark = now
    return seconds
  }
  const eta = () => {
    const steps = jobs.reduce((sum, job) => sum + job.steps - job.stepsDone, 0)
    const problems = jobs.reduce((sum, job) => sum + job.problems - job.problemsDone, 0)
    const problem = pace.problem.value()
    // Before the first training step its time is unknown, and so is the whole's.
    const step = pace.step.value() ?? (steps === 0 ? 0 : undefined)
    if (step === undefined || problem === undefined) return ''
    return `ETA ${duration((steps * step + problems * problem) / Math.max(1, running()))}`
  }

  const onDownload = downloadProgress(stream)
  const onEvent = (event: RunEvent): void => {
    switch (event.type) {
      case 'download':
        onDownload(event)
        return
      case 'notice':
        say(event.text)
        return
      case 'plan':
        jobs = event.jobs.map(({ name, steps, problems, progress }) => ({
          name,
          steps,
          stepsDone: progress.steps,
          problems,
          problemsDone: progress.evaluated,
          running: false,
          mark: 0,
        }))
        return
      case 'job': {
        const job = jobs.find(({ name }) => name === event.job)
        if (job) job.running = event.state === 'started'
        if (event.state === 'started') {
          lap(event.job)
          said = ''
          if (!live)
            say(`${position()} ${job && job.stepsDone + job.problemsDone > 0 ? 'continued' : 'started'}`)
        } else if (event.state === 'failed') {
          if (job) {
            job.stepsDone = job.steps
            job.problemsDone = job.problems
          }
          say(`${event.job} failed: ${event.why}`)
        } else if (event.state === 'kept') {
          say(`${event.job} was finished before`)
        }
        return
      }
      case 'tokens':
        rate.add(event.newTokens)
        draw()
        return
      case 'step': {
        const { step, reward, noteAcc, seconds, sampledTokens } = event.metrics
        pace.step.add(lap(event.job))
        if (current) current.stepsDone = step
        said = `step ${step}/${event.steps}  reward ${three(reward)}${noteAcc === null ? '' : `  notes ${three(noteAcc)}`}`
        if (live) draw()
        else if (step % QUIET_STEPS === 0 || step === event.steps) {
          const busy = Object.values(seconds)
            .flat()
            .reduce((sum, value) => sum + value, 0)
          say(`${position()}  ${said}  ${Math.round(sampledTokens / busy)} tok/s  ${eta()}`.trimEnd())
        }
        return
      }
      case 'evaluated': {
        const seconds = lap(event.job)
        if (current) {
          pace.problem.add(seconds / Math.max(1, event.problems - current.problemsDone))
          current.problemsDone = event.problems
        }
        said = `evaluated ${event.problems}/${event.of}  right ${three(event.right)}`
        if (live) draw()
        else if (event.problems === event.of) say(`${position()}  ${said}  ${eta()}`.trimEnd())
      }
    }
  }
  return { onEvent, end: clear }
}

/** Says how far a model's download is: a changing line on a terminal, a line for each tenth elsewhere. */
export function downloadProgress(stream: ProgressStream): (progress: DownloadProgress) => void {
  let said = -1
  return ({ name, done, total }) => {
    const percent = total > 0 ? Math.floor((100 * done) / total) : 100
    const step = stream.isTTY === true ? percent : percent - (percent % 10)
    if (step === said) return
    said = step
    const text = `${printableLine(name)}: ${step}% of ${(total / 1e6).toFixed(0)} MB`
    stream.write(stream.isTTY === true ? `\r\u001b[K${text}${done === total ? '\n' : ''}` : `${text}\n`)
  }
}

/** A listener that says how far `eval` is: a changing line on a terminal, one a minute and a portion elsewhere. */
export function evaluationProgress(stream: ProgressStream): {
  onProgress: (progress: EvaluationProgress) => void
  end: () => void
} {
  const live = stream.isTTY === true
  const rate = tokenRate()
  let started: number | undefined
  let written = 0
  let said = 0
  let drawn = performance.now()
  const onProgress = ({ problems, of, newTokens, tokensLeft, isBound }: EvaluationProgress) => {
    const now = performance.now()
    // Tokens come at the end of a prompt's computation: the time of the first is left out.
    if (started === undefined) started = now
    else written += newTokens
    rate.add(newTokens)
    const left = written > 0 ? (tokensLeft * (now - started)) / 1000 / written : undefined
    const eta =
      left === undefined || problems === of ? '' : `ETA ${isBound ? 'at most ' : ''}${duration(left)}`
    if (now - drawn < (live ? 100 : QUIET_MS) && (live || problems === said)) return
    drawn = now
    said = problems
    const text = `${problems}/${of} problems  ${Math.round(rate.perSecond())} tok/s  ${eta}`.trimEnd()
    stream.write(live ? `\r\u001b[K${text}` : `${text}\n`)
  }
  return { onProgress, end: () => live && stream.write('\r\u001b[K') }
}

/** New tokens a second over the last few seconds. */
function tokenRate() {
  const WINDOW = 5000
  let recent: { at: number; tokens: number }[] = []
  return {
    add(tokens: number) {
      const at = performance.now()
      recent = [...recent.filter((entry) => at - entry.at < WINDOW), { at, tokens }]
    },
    perSecond() {
      const from = recent[0]?.at ?? 0
      const span = (performance.now() - from) / 1000
      // Over less than a second a rate says nothing.
      return recent.reduce((sum, entry) => sum + entry.tokens, 0) / Math.max(span, 1)
    },
  }
}

/** An exponential average; undefined before the first value. */
function average() {
  let mean: number | undefined
  return {
    add(value: number) {
      mean = mean === undefined ? value : 0.8 * mean + 0.2 * value
    },
    value: () => mean,
  }
}

/** 75 seconds read 1m 15s. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds))
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60]
  if (h > 0) return `${h}h ${m}m`
  return m > 0 ? `${m}m ${s}s` : `${s}s`
}
