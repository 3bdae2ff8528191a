/**
 * Seconds of the default experiment on this machine, from the command to its table, and of any other version's:
 *
 *   npx tsx bench/default-run.ts [--times 2] [--cli dist/cli/main.js] [--of VERSION] [-- FLAGS OF run]
 *
 * `--cli` is the program to run (built, or a source that Node's flags make run), `--of` the name that its line gets. Each
 * is a line of bench/results/default-run.jsonl; docs/speed.md is made from them (scripts/speed.ts).
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { appendFile } from 'node:fs/promises'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    times: { type: 'string', default: '2' },
    cli: { type: 'string', default: 'dist/cli/main.js' },
    of: { type: 'string' },
    sitting: { type: 'string', default: new Date().toISOString().slice(0, 10) },
  },
})

const git = (...what: string[]) => spawnSync('git', what, { encoding: 'utf8' }).stdout.trim()

for (let time = 0; time < Number(values.times); time++) {
  const folder = mkdtempSync(join(tmpdir(), 'default-run-'))
  const out = join(folder, 'run')
  const program = values.cli.endsWith('.ts') ? ['--import', 'tsx'] : []
  const started = performance.now()
  const { status, stderr } = spawnSync(
    process.execPath,
    [...program, resolve(values.cli), 'run', '--out', out, ...positionals],
    { encoding: 'utf8', cwd: process.cwd() },
  )
  const seconds = (performance.now() - started) / 1000
  const sampled = tokensOf(out)
  // An earlier version from source has no page to write at its end, and says so.
  if (status !== 0 && sampled === 0) throw new Error(stderr)
  const line = {
    sitting: values.sitting,
    of: values.of ?? git('rev-parse', '--short', 'HEAD'),
    flags: positionals,
    seconds: Number(seconds.toFixed(2)),
    /** Drawn in training. */
    sampled,
    processor: cpus()[0]?.model ?? 'unknown',
    threads: availableParallelism(),
    node: process.version,
    date: new Date().toISOString().slice(0, 10),
  }
  await appendFile(
    new URL('results/default-run.jsonl', import.meta.url).pathname,
    `${JSON.stringify(line)}\n`,
  )
  console.log(JSON.stringify(line))
  rmSync(folder, { recursive: true })
}

function tokensOf(out: string): number {
  let sum = 0
  for (const job of readdirSync(out)) {
    let text: string
    try {
      text = readFileSync(join(out, job, 'metrics.jsonl'), 'utf8')
    } catch {
      continue
    }
    for (const line of text.split('\n').filter(Boolean)) sum += JSON.parse(line).sampledTokens
  }
  return sum
}
