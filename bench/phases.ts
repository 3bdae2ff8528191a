/**
 * Seconds and tokens a second of each phase of the default experiment, on the built-in policy and task: what a step
 * and an evaluation are made of. Run it with `npm run bench`; the raw figures go to bench/results/phases.json.
 *
 * Phases are timed apart, each warmed up once and then repeated; the median is shown. "prefill" computes the readers'
 * prompts and one token; "read" is the whole of round two, prefill included.
 */
import { mkdir } from 'node:fs/promises'
import { availableParallelism, cpus } from 'node:os'
import { playPolicy } from '../src/board/policy-writer.ts'
import { resolveProtocol } from '../src/board/protocol.ts'
import { board as boardOf } from '../src/board/protocols.ts'
import { own, type Sight, shared } from '../src/board/sights.ts'
import type { SampleRequest } from '../src/engine/contract.ts'
import { openOnnxEngine } from '../src/engine/onnx/index.ts'
import { defineExperiment } from '../src/experiment/config.ts'
import { writeJsonAtomic } from '../src/files.ts'
import { builtInModel } from '../src/platform/machine.ts'
import { random } from '../src/random.ts'
import { policyBatch } from '../src/train/grpo.ts'

const REPEATS = 5

const experiment = defineExperiment({ seeds: [17, 18] })
const { board, evaluation, grader } = experiment
const { train, sampling } = experiment.arms.recipe
const engine = await openOnnxEngine({ model: builtInModel, name: 'built-in policy' })
const policy = await engine.createPolicy({ lora: { ...train.lora, seed: 17 } })
const split = await experiment.task.load()
const problems = split.train.slice(0, train.problemsPerStep)

const notes = { maxTokens: board.noteTokens, ...sampling.context }
const replies = { maxTokens: board.replyTokens, ...sampling.trained }
const stop = engine.tokenizer.stop

interface Row {
  phase: string
  seconds: number[]
  /** Tokens of the phase, and what they are. */
  tokens: number
  what: string
}
const rows: Row[] = []

async function time(phase: string, what: string, run: () => Promise<number>): Promise<void> {
  let tokens = await run()
  const seconds: number[] = []
  for (let i = 0; i < REPEATS; i++) {
    const started = performance.now()
    tokens = await run()
    seconds.push((performance.now() - started) / 1000)
  }
  rows.push({ phase, seconds, tokens, what })
  const { median, rate } = summary(rows[rows.length - 1])
  console.log(`${phase.padEnd(34)} ${median.toFixed(3).padStart(8)} s ${rate.padStart(8)} ${what} a second`)
}

function summary({ seconds, tokens }: Row) {
  const median = [...seconds].sort((a, b) => a - b)[seconds.length >> 1]
  return { median, rate: tokens === 0 ? '' : Math.round(tokens / median).toString() }
}

const play = (reads: Sight, some = problems, drawn = [notes, replies]) =>
  playPolicy({ ...engine, policy }, some, {
    protocol: resolveProtocol(boardOf({ reads }), board),
    sampling: drawn,
    grader,
    seed: ['bench'],
  })

const newTokens = (groups: { tokens: number[] }[][]) =>
  groups.flat().reduce((sum, { tokens }) => sum + tokens.length, 0)
const promptTokens = (requests: SampleRequest[]) =>
  requests.reduce((sum, { prompt }) => sum + prompt.length, 0)

let texts = 0

/** Equal prompts become one request, as the rounds ask for them. */
function requestsOf(rollouts: { prompt: number[] }[]): SampleRequest[] {
  const byPrompt = new Map<string, SampleRequest>()
  for (const { prompt } of rollouts) {
    const key = prompt.join(' ')
    const known = byPrompt.get(key)
    byPrompt.set(key, { prompt, seeds: [...(known?.seeds ?? []), texts++] })
  }
  return [...byPrompt.values()]
}

const played = { own: (await play(own)).played, shared: (await play(shared)).played }
const drafts = requestsOf(played.own.flatMap((one) => one.traces[0]))
await time('draft', 'new tokens', async () => newTokens(await policy.sample(drafts, { ...notes, stop })))
for (const reads of ['own', 'shared'] as const) {
  const readers = requestsOf(played[reads].flatMap((one) => one.traces[1]))
  await time(`prefill, ${reads}`, 'prompt tokens', async () => {
    await policy.sample(readers, { ...replies, maxTokens: 1, stop })
    return promptTokens(readers)
  })
  await time(`read, ${reads}`, 'new tokens', async () =>
    newTokens(await policy.sample(readers, { ...replies, stop })),
  )
}
for (const reads of ['own', 'shared'] as const) {
  // Rewards drawn at random, so that every reply has a gradient: the most a step can cost.
  const draw = random('bench', reads)
  const batch = policyBatch(
    played[reads].map(({ traces: [, rollouts] }) => ({ rollouts, rewards: rollouts.map(() => draw.next()) })),
  )
  const loss = {
    kind: 'policy_gradient',
    clipLow: train.clipLow,
    clipHigh: train.clipHigh,
    temperature: sampling.trained.temperature,
  } as const
  const distinct = new Map(batch.map(({ prompt }) => [prompt.join(' '), prompt.length]))
  const tokens =
    [...distinct.values()].reduce((sum, length) => sum + length, 0) +
    batch.reduce((sum, { completion }) => sum + completion.length - 1, 0)
  await time(`forward+backward, ${reads}`, 'tokens', async () => {
    await policy.forwardBackward(batch, loss)
    return tokens
  })
}
await time('optimiser step', '', async () => {
  await policy.optimStep({ ...train, learningRate: 0 })
  return 0
})
for (const reads of [own, shared]) {
  await time(`evaluation of ${split.holdout.length}, ${reads.name}`, 'new tokens', async () => {
    const drawn = [board.noteTokens, board.replyTokens].map((maxTokens) => ({
      maxTokens,
      ...evaluation.sampling,
    }))
    const { played: boards } = await play(reads, split.holdout, drawn)
    return boards
      .flatMap(({ traces }) => traces.flat())
      .reduce((sum, { completion }) => sum + completion.length, 0)
  })
}
const peakMiB = process.resourceUsage().maxRSS / 1024
console.log(`peak memory ${peakMiB.toFixed(0)} MiB`)

await mkdir(new URL('results/', import.meta.url), { recursive: true })
await writeJsonAtomic(new URL('results/phases.json', import.meta.url).pathname, {
  machine: { processor: cpus()[0]?.model ?? 'unknown', threads: availableParallelism() },
  versions: { node: process.version, ...engine.info.versions },
  model: { parameters: engine.info.parameters },
  shapes: {
    problems: problems.length,
    copies: board.copies,
    noteTokens: board.noteTokens,
    replyTokens: board.replyTokens,
  },
  peakMiB,
  phases: rows,
})
await engine.close()
