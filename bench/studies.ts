/**
 * How well jobs run side by side: seconds of one cell of the map of credit alone, and of as many at once as there are
 * cores, a process for each:
 *
 *   npx tsx bench/studies.ts [--jobs 16] [--times 3] [--out FILE]
 *
 * All play the same cell with the same seed, so that one alone and each of many do the same work. A run of each that is
 * not counted goes first. Each time is a line of bench/results/studies.jsonl; docs/speed.md is made from them
 * (scripts/speed.ts). `share` is one alone over N at once: 1 where a core's job takes nothing from its neighbours. One
 * alone has helpers on other cores, which it loses there: `busyAlone` and `busyTogether` are how many cores were busy
 * meanwhile, with whatever else the machine did. `machineShare` is the share of as many loops that have nothing in common,
 * not even memory: what cores are of one another when all of them are busy.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { appendFile } from 'node:fs/promises'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url))
const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: `${availableParallelism()}` },
    times: { type: 'string', default: '3' },
    out: { type: 'string', default: at('results/studies.jsonl') },
  },
})
const jobs = Number(values.jobs)

/** A few seconds of arithmetic within a core's own cache, with no helpers to speak of. */
const LOOP = `
const numbers = new Float64Array(2048)
let sum = 0
for (let round = 0; round < 600000; round++)
  for (let i = 0; i < 2048; i++) sum += numbers[i] = numbers[i] * 0.999 + 1
if (sum < 0) throw new Error('no')`

for (let time = 0; time <= Number(values.times); time++) {
  const alone = await timed(1)
  const together = await timed(jobs)
  const [loop, loops] = [await looped(1), await looped(jobs)]
  if (time === 0) continue
  const line = {
    jobs,
    secondsAlone: round(alone.seconds),
    secondsTogether: round(together.seconds),
    share: round(alone.seconds / together.seconds),
    busyAlone: round(alone.busy),
    busyTogether: round(together.busy),
    machineShare: round(loop / loops),
    processor: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    node: process.version,
    date: new Date().toISOString().slice(0, 10),
  }
  await appendFile(values.out, `${JSON.stringify(line)}\n`)
  console.log(JSON.stringify(line))
}

/** Seconds from the start of the first process to the end of the last. */
async function timed(count: number): Promise<{ seconds: number; busy: number }> {
  const folder = mkdtempSync(join(tmpdir(), 'studies-'))
  const [started, before] = [performance.now(), busySeconds()]
  await Promise.all(Array.from({ length: count }, (_, i) => cell(join(folder, `${i}.jsonl`))))
  const seconds = (performance.now() - started) / 1000
  rmSync(folder, { recursive: true })
  return { seconds, busy: (busySeconds() - before) / seconds }
}

/** Seconds until the last of so many has ended. */
async function looped(count: number): Promise<number> {
  const started = performance.now()
  await Promise.all(
    Array.from(
      { length: count },
      () =>
        new Promise<void>((done, failed) => {
          const child = spawn(process.execPath, ['--single-threaded', '-e', LOOP], { stdio: 'ignore' })
          child.once('error', failed)
          child.once('exit', (code) => (code === 0 ? done() : failed(new Error(`a loop ended with ${code}`))))
        }),
    ),
  )
  return (performance.now() - started) / 1000
}

/** Of all cores, since the machine started. */
function busySeconds(): number {
  return cpus().reduce((sum, { times: { user, nice, sys, irq } }) => sum + user + nice + sys + irq, 0) / 1000
}

function round(value: number): number {
  return Number(value.toFixed(2))
}

function cell(out: string): Promise<void> {
  const which = [
    '--worlds',
    'clues',
    '--rules',
    'readersOnly',
    '--seeds',
    '1-1',
    '--steps',
    '5',
    '--holdout',
    '60',
  ]
  const child = spawn(process.execPath, ['--import', 'tsx', at('credit-map.ts'), ...which, '--out', out], {
    cwd: at('..'),
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  return new Promise((done, failed) => {
    child.once('error', failed)
    child.once('exit', (code) => (code === 0 ? done() : failed(new Error(`a cell ended with ${code}`))))
  })
}
