/**
 * `npm run test:tinker`: the Tinker engine against a real server, SkyRL with its JAX backend on this machine's
 * processors, serving the built-in policy. The built-in engine is what it is compared with. Too heavy for CI: the first
 * run downloads some gigabytes of Python packages, and a compiler runs for minutes.
 *
 *     npm run test:tinker
 *     npm run test:tinker -- --write           also puts what it printed into docs/tinker.md
 *
 * Prints one line for each comparison; the exit code is 1 where one differs by more than it may.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type PlayOptions, play } from '../../../src/board/play.ts'
import { policyWriter, type Rollout } from '../../../src/board/policy-writer.ts'
import { notePrompt } from '../../../src/board/prompts.ts'
import { resolveProtocol, sharedPolicy } from '../../../src/board/protocol.ts'
import { board } from '../../../src/board/protocols.ts'
import { shared } from '../../../src/board/sights.ts'
import type { Engine, Policy, PolicyDatum, Sequence } from '../../../src/engine/contract.ts'
import { openOnnxEngine } from '../../../src/engine/onnx/index.ts'
import { adamStep, policyLoss } from '../../../src/engine/testing/update.ts'
import { openClient } from '../../../src/engine/tinker/client.ts'
import { openTinkerEngine } from '../../../src/engine/tinker/index.ts'
import { openServer } from '../../../src/engine/tinker/server.ts'
import { readJsonFile } from '../../../src/files.ts'
import { mathGrader } from '../../../src/grade/grader.ts'
import { builtInModel } from '../../../src/platform/machine.ts'
import { readProgress } from '../../../src/record/job-log.ts'
import { resultsSchema } from '../../../src/record/results.ts'
import { clues } from '../../../src/tasks/clues.ts'
import { wordProblems } from '../../../src/tasks/word-problems.ts'
import { leaveOneOut } from '../../../src/train/credit/index.ts'
import { policyBatch } from '../../../src/train/grpo.ts'
import { creditTools } from '../../../src/train/tools.ts'
import { type SkyRl, skyrl } from './skyrl.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const model = builtInModel

let failed = 0
let compared = 0
const said: string[] = []
function say(line: string): void {
  said.push(line)
  process.stdout.write(`${line}\n`)
}
function report(passed: boolean, name: string, detail: string): void {
  compared++
  if (!passed) failed++
  say(`${passed ? 'ok  ' : 'FAIL'}  ${name.padEnd(44)} ${detail}`)
}

const small = (value: number) => value.toExponential(1)
const flat = (rows: readonly ArrayLike<number>[]) => rows.flatMap((row) => Array.from(row))
const largest = (a: readonly ArrayLike<number>[], b: readonly ArrayLike<number>[]) => {
  const theirs = flat(b)
  return flat(a).reduce((most, value, i) => Math.max(most, Math.abs(value - theirs[i])), 0)
}
const norm = (values: readonly number[]) => Math.hypot(...values)

async function numbers(url: string, scratch: string): Promise<void> {
  const server = await openTinkerEngine({ urls: [url], model, tokenizer: model })
  const own = await openOnnxEngine({ model, threads: 1 })
  const { tokenizer } = own
  const { train: problems } = await wordProblems({ train: 6, holdout: 1 }).load()
  const requests = problems.map(({ question }, i) => ({
    prompt: tokenizer.chat(notePrompt(question)),
    seeds: [0, 1, 2, 3].map((text) => 3_000_000_000 + 4 * i + text),
  }))
  const options = { maxTokens: 24, temperature: 1, topP: 1, stop: tokenizer.stop }
  const theirBase = await server.createPolicy()
  const ourBase = await own.createPolicy()

  const samples = (await theirBase.sample(requests, options)).flat()
  const again = (await theirBase.sample(requests, options)).flat()
  const others = (
    await theirBase.sample(
      requests.map((r) => ({ ...r, seeds: r.seeds.map((seed) => seed + 1000) })),
      options,
    )
  ).flat()
  const sequences: Sequence[] = samples.map(({ tokens }, i) => ({
    prompt: requests[Math.floor(i / 4)].prompt,
    completion: tokens,
  }))
  const given = await ourBase.logprobs(sequences, { temperature: 1 })
  const positions = flat(given).length
  const scored = largest(await theirBase.logprobs(sequences, { temperature: 1 }), given)
  report(
    scored <= 1e-3,
    'log-probabilities of given tokens',
    `largest difference ${small(scored)} over ${positions}`,
  )
  const drawn = largest(
    samples.map(({ logprobs }) => logprobs),
    given,
  )
  report(
    drawn <= 1e-3,
    'log-probabilities of sampled tokens',
    `largest difference ${small(drawn)} over ${positions}`,
  )
  const stopped = samples.filter(({ finish }) => finish === 'stop').length
  const wellEnded = samples.every(({ tokens, finish }) => {
    const ends = tokens.map((token) => tokenizer.stop.includes(token))
    return finish === 'stop'
      ? ends.indexOf(true) === tokens.length - 1
      : !ends.includes(true) && tokens.length === 24
  })
  report(
    wellEnded && stopped > 0,
    'stop tokens and the limit',
    `${stopped} of ${samples.length} samples ended by one`,
  )
  const same = samples.filter(({ tokens }, i) => tokens.join() === again[i].tokens.join()).length
  const different = samples.filter(({ tokens }, i) => tokens.join() !== others[i].tokens.join()).length
  report(
    same === samples.length && different > samples.length / 2,
    'seeds',
    `${same} of ${samples.length} samples the same again, ${different} different with other seeds`,
  )
  await theirBase.sample(requests.slice(0, 1), { ...options, topP: 0.95 })
  report(true, 'top_p', 'kept to')

  const lora = { rank: 8, alpha: 32, seed: 17 }
  const theirs = await server.createPolicy({ lora })
  const begun = join(scratch, 'begun')
  await theirs.save(begun)
  const ours = await own.createPolicy({ lora })
  await ours.load(begun)
  const batch = policyBatch(
    requests.map((_, p) => {
      const rollouts = samples.slice(4 * p, 4 * p + 4).map(({ tokens, logprobs }) => ({
        prompt: requests[p].prompt,
        completion: tokens,
        logprobs,
      }))
      const rewards = rollouts.map(({ completion }, i) => {
        const { correct } = mathGrader.grade(tokenizer.decode(completion), problems[p].gold)
        // Where none or all are right, one is paid all the same: there has to be something to learn.
        return correct || i === p % 4 ? 1 : 0
      })
      return { rollouts, rewards }
    }),
  )
  await update(theirs, ours, batch, sequences, 'one GRPO update')

  const moved = join(scratch, 'moved')
  await theirs.save(moved)
  const copy = await own.createPolicy({ lora })
  await copy.load(moved)
  const kept = largest(
    await copy.logprobs(sequences, { temperature: 1 }),
    await theirs.logprobs(sequences, { temperature: 1 }),
  )
  report(kept <= 1e-3, 'the adapter, downloaded', `largest difference ${small(kept)} in the built-in engine`)

  const resumed = await server.createPolicy({ lora })
  await resumed.load(moved)
  const restored = largest(
    await resumed.logprobs(sequences, { temperature: 1 }),
    await theirs.logprobs(sequences, { temperature: 1 }),
  )
  report(restored <= 1e-4, 'a checkpoint, restored', `largest difference ${small(restored)}`)
  // With the optimiser's moments: a second update from the restored state is the one that follows the first.
  await update(resumed, ours, batch, sequences, 'the next update, from the checkpoint')
  // Gradients cut to a hundredth of their length, which this server cannot do by itself.
  await update(resumed, ours, batch, sequences, 'an update with clipped gradients', 1e-4)
  for (const policy of [theirs, resumed]) policy.dispose()
  await server.close()
  await own.close()
}

/** Credit by re-scoring, asked of the server that wrote the boards and of the built-in engine about the same boards. */
async function credit(url: string): Promise<void> {
  const server = await openTinkerEngine({ urls: [url], model, tokenizer: model })
  const own = await openOnnxEngine({ model, threads: 1 })
  const protocol = resolveProtocol(board({ reads: shared }), { copies: 4, noteTokens: 24, replyTokens: 24 })
  const text = { maxTokens: 24, temperature: 1, topP: 1 }
  const playing: PlayOptions = { protocol, sampling: [text, text], grader: mathGrader, seed: [17] }
  const { train } = await clues({ train: 12, holdout: 1 }).load()
  const toolsOf = async (engine: Engine) => {
    const policy = await engine.createPolicy()
    const authors = new Map([[sharedPolicy, { ...engine, policy }]])
    const writer = policyWriter(authors, { readTokens: null })
    return { writer, ...creditTools({ ...playing, writer, authors, readTokens: null }) }
  }
  const theirs = await toolsOf(server)
  const ours = await toolsOf(own)
  const { played } = await play<Rollout>(
    theirs.writer,
    train.map((problem) => ({ problem })),
    playing,
  )
  const rule = leaveOneOut({ by: 'rescore' })
  const [a, b] = [await rule.assign(played, theirs.tools), await rule.assign(played, ours.tools)]
  const paid = ({ credits }: typeof a) => credits.map(([notes]) => notes.map(Number))
  const credited = flat(paid(a)).filter((each) => each !== 0).length
  const difference = largest(paid(a), paid(b))
  const sizes = largest([a.effective ?? []], [b.effective ?? []])
  report(
    credited > 0 && difference <= 1e-3 && sizes <= 1e-2,
    'credit by re-scoring',
    `${credited} of ${12 * 4} notes are paid; largest difference ${small(difference)}, of effective samples ${small(sizes)}`,
  )
  await server.close()
  await own.close()
}

/** The same update on both, and how it moved the log-probabilities. */
async function update(
  theirs: Policy,
  ours: Policy,
  batch: readonly PolicyDatum[],
  sequences: readonly Sequence[],
  name: string,
  maxGradNorm = 1,
): Promise<void> {
  const step = async (policy: Policy) => {
    const before = await policy.logprobs(sequences, { temperature: 1 })
    const { loss } = await policy.forwardBackward(batch, policyLoss())
    const { gradNorm } = await policy.optimStep(adamStep({ maxGradNorm }))
    const after = await policy.logprobs(sequences, { temperature: 1 })
    const change = flat(after).map((value, i) => value - flat(before)[i])
    return { loss, gradNorm, change }
  }
  const a = await step(theirs)
  const b = await step(ours)
  const error = norm(a.change.map((value, i) => value - b.change[i])) / norm(b.change)
  const norms = Math.abs(a.gradNorm - b.gradNorm) / b.gradNorm
  report(
    error <= 0.02 && norms <= 0.02 && Math.abs(a.loss - b.loss) < 1e-3,
    name,
    `relative error of the change ${small(error)}, of the gradient's norm ${small(norms)}; ` +
      `the change is ${Math.max(...b.change.map(Math.abs)).toFixed(3)} at most`,
  )
}

async function capabilities(url: string): Promise<void> {
  const client = openClient({ url })
  const server = openServer(client, model)
  const found = await server.training({ rank: 8, alpha: 32, seed: 0 })
  client.close()
  say(`      this server: ${JSON.stringify(found)}`)
}

/** The command line on the small experiment. */
function run(out: string, args: string[]): { child: ChildProcess; ended: Promise<number | null> } {
  const child = spawn(
    process.execPath,
    ['--import', 'tsx', 'src/cli/main.ts', 'run', 'test/live/tinker/experiment.ts', '--out', out, ...args],
    { cwd: root, stdio: ['ignore', 'ignore', 'inherit'], env: { ...process.env, TINKER_MODEL: model } },
  )
  return { child, ended: new Promise((resolve) => child.on('exit', resolve)) }
}

const linesOf = (file: string): Promise<string[]> =>
  readFile(file, 'utf8').then(
    (text) => text.split('\n').slice(0, -1),
    () => [],
  )

/** The steps of a job that are on record, and their lines: a line beyond them is made again. */
async function recordOf(job: string): Promise<{ steps: number; lines: string[] }> {
  const steps = (await readProgress(job))?.steps ?? 0
  return { steps, lines: (await linesOf(join(job, 'metrics.jsonl'))).slice(0, steps) }
}

/** Waits until a job has so many steps on record; false where the run ended before. */
async function reached(job: string, steps: number, ended: Promise<unknown>): Promise<boolean> {
  let over = false
  void ended.then(() => {
    over = true
  })
  while (!over) {
    if ((await recordOf(job)).steps >= steps) return true
    await sleep(50)
  }
  return false
}

/** All files of a run, checkpoints' own apart. */
async function filesOf(folder: string): Promise<string[]> {
  const found = await readdir(folder, { recursive: true, withFileTypes: true })
  return found
    .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
    .map(({ parentPath, name }) => join(parentPath, name).slice(folder.length + 1))
    .filter((name) => !name.includes('checkpoint-'))
    .sort()
}

async function experiment(server: SkyRl, scratch: string): Promise<void> {
  const out = join(scratch, 'run')
  const job = join(out, 'baseline-s17')
  const args = ['--engine', 'tinker', '--url', server.url, '--jobs', '2']

  // Client and server are killed as soon as a step is on record: most likely in the middle of the next one.
  const first = run(out, args)
  const begun = await reached(job, 1, first.ended)
  first.child.kill('SIGKILL')
  await first.ended
  await server.kill()
  const before = await recordOf(job)
  report(
    begun && before.steps < 3,
    'an experiment, killed with its server',
    `after step ${before.steps} of 3`,
  )

  await server.start()
  const second = run(out, args)
  const further = await reached(job, Math.min(before.steps + 1, 3), second.ended)
  // This time the server alone: the run waits for it and goes on.
  await server.kill()
  await sleep(2000)
  await server.start()
  const code = await second.ended
  const after = await recordOf(job)
  report(
    further && code === 0 && after.steps === 3 && before.lines.every((line, i) => line === after.lines[i]),
    'the same command again, the server killed',
    `exit code ${code}; ${after.steps} steps, the first ${before.steps} as before`,
  )

  const own = join(scratch, 'own')
  const ownCode = await run(own, []).ended
  const [theirs, ours] = [await filesOf(out), await filesOf(own)]
  report(
    ownCode === 0 && theirs.join() === ours.join(),
    "the run folder, and the built-in engine's",
    `${theirs.length} files, named alike`,
  )
  const results = await readJsonFile(join(out, 'results.json'), resultsSchema)
  const [contrast] = results.contrasts
  report(
    results.failed.length === 0 && contrast !== undefined,
    'its results',
    `verdict: ${contrast?.verdict}`,
  )
}

async function main(): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), 'tinker-'))
  const server = await skyrl(model, scratch)
  const started = performance.now()
  try {
    await server.start()
    await capabilities(server.url)
    await numbers(server.url, scratch)
    await credit(server.url)
    await experiment(server, scratch)
  } finally {
    await server.kill()
    if (failed === 0) await rm(scratch, { recursive: true, force: true })
    else process.stdout.write(`All of it is in ${scratch}.\n`)
  }
  const minutes = ((performance.now() - started) / 60_000).toFixed(1)
  say(`${compared - failed} passed, ${failed} failed, in ${minutes} minutes`)
  if (process.argv.includes('--write')) {
    const page = join(root, 'docs/tinker.md')
    const machine = `${cpus().length} cores of an ${cpus()[0].model}, Node ${process.version}:`
    const text = `<!-- run -->\n${machine}\n\n\`\`\`text\n${said.join('\n')}\n\`\`\`\n<!-- /run -->`
    await writeFile(
      page,
      (await readFile(page, 'utf8')).replace(/<!-- run -->.*<!-- \/run -->/s, () => text),
    )
  }
  process.exitCode = failed === 0 ? 0 : 1
}

await main()
