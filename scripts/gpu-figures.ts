/**
 * Puts measured figures into docs/gpu.md, between its markers, from bench/results/gpu-*:
 *
 *   npx tsx scripts/gpu-figures.ts
 */
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { readJsonFile } from '../src/files.ts'
import { floorText } from './floor.ts'
import { replaceSections, table } from './markdown.ts'
import { median } from './numbers.ts'
import { versionOneLines, versionOneSchema, versionOneTable } from './version-1.ts'

const root = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url))

const phases = ['draft', 'prefill', 'read', 'train', 'optimise'] as const
const benchSchema = z.object({
  bench: z.literal('gpu'),
  shape: z.string(),
  device: z.string(),
  precision: z.string(),
  gpu: z.string(),
  parameters: z.number(),
  measured: z.array(
    z.object({
      problems: z.number(),
      copies: z.number(),
      questionTokens: z.number(),
      rank: z.number(),
      noteTokens: z.number(),
      replyTokens: z.number(),
      warmUp: z.record(z.enum(phases), z.number()).optional(),
      repetitions: z.array(z.record(z.enum(phases), z.number())),
      peakMemoryMiB: z.number(),
    }),
  ),
})

const seconds = z.object({
  draft: z.number(),
  read: z.number(),
  forwardBackward: z.number(),
  optimiser: z.number(),
  step: z.number(),
})
type PeerStep = z.infer<typeof seconds>
/** What `test/live/peers/trl_step.py` wrote. */
const peerSchema = z.object({
  program: z.literal('trl'),
  complete: z.literal(true),
  device: z.string(),
  options: z.object({
    shape: z.string(),
    problems: z.number(),
    copies: z.number(),
    note_tokens: z.number(),
    reply_tokens: z.number(),
  }),
  whole: z.object({ rows: z.array(seconds).min(1), peakGiB: z.number() }),
})

const folder = root('bench/results')
const keyOf = (shape: string, problems: number, copies: number, note: number, reply: number) =>
  `${shape}, ${problems} x ${copies}, ${note} + ${reply}`
/** The peer's steps of all its files, by shape and sizes. */
const peers = new Map<
  string,
  { cells: [string, string]; tokens: number; rows: PeerStep[]; peakGiB: number }
>()
for (const file of (await readdir(folder)).filter((name) => /^trl-.*\.json$/.test(name)).sort()) {
  const { device, options, whole } = await readJsonFile(`${folder}/${file}`, peerSchema)
  const { shape, problems, copies, note_tokens: note, reply_tokens: reply } = options
  const key = keyOf(shape, problems, copies, note, reply)
  const known = peers.get(key)
  peers.set(key, {
    cells: [`${shape}, TRL (bfloat16), ${device}`, `${problems} x ${copies}, ${note} + ${reply}`],
    tokens: problems * copies * (note + reply),
    rows: [...(known?.rows ?? []), ...whole.rows],
    peakGiB: Math.max(known?.peakGiB ?? 0, whole.peakGiB),
  })
}
const medianOf = (rows: readonly PeerStep[], name: keyof PeerStep) => median(rows.map((row) => row[name]))
const peerRows = [...peers.values()].map(({ cells, tokens, rows, peakGiB }) => {
  const of = (name: keyof PeerStep) => medianOf(rows, name).toFixed(2)
  const rate = String(Math.round(tokens / medianOf(rows, 'step')))
  const times = [of('draft'), '', of('read'), of('forwardBackward'), of('optimiser'), of('step')]
  return [...cells, ...times, rate, peakGiB.toFixed(0)]
})
/** How many times as long the peer takes. */
const ratios: string[][] = []
const floors: string[] = []
/** What a program's first step takes. */
const firsts: string[] = []

const files = (await readdir(folder)).filter((name) => /^gpu-(cuda|webgpu)-.*\.json$/.test(name)).sort()
const rows: string[][] = []
for (const file of files) {
  const { shape, device, precision, gpu, parameters, measured } = await readJsonFile(
    `${folder}/${file}`,
    benchSchema,
  )
  for (const found of measured) {
    const { problems, copies, noteTokens, replyTokens, peakMemoryMiB, warmUp } = found
    // Of a device too slow for more, the first step, compiling included.
    const cold = found.repetitions.length === 0 && warmUp !== undefined
    const counted = cold ? [warmUp] : found.repetitions
    if (counted.length === 0) continue
    const spent = phases.map((phase) => median(counted.map((times) => times[phase])))
    // Reading the boards computes their prompts too: prefill is a part of it.
    const step = spent.reduce((sum, value) => sum + value, 0) - spent[phases.indexOf('prefill')]
    const tokens = problems * copies * (noteTokens + replyTokens)
    const peer = peers.get(keyOf(shape, problems, copies, noteTokens, replyTokens))
    if (peer !== undefined) {
      const all = peer.rows.map((row) => row.step)
      ratios.push([
        `${shape}, ${device}`,
        `${(median(all) / step).toFixed(1)} times`,
        `${(Math.min(...all) / step).toFixed(1)} times`,
      ])
      if (device === 'cuda') floors.push(floorText(parameters, found, step))
      if (warmUp) {
        const { draft, read, train, optimise } = warmUp
        firsts.push(
          `${(draft + read + train + optimise).toFixed(0)} s on ${device === 'cuda' ? 'CUDA' : 'WebGPU'}`,
        )
      }
    }
    rows.push([
      `${shape}, ${device} (${precision}), ${gpu}${cold ? ', first step' : ''}`,
      `${problems} x ${copies}, ${noteTokens} + ${replyTokens}`,
      ...spent.map((value) => value.toFixed(2)),
      step.toFixed(2),
      String(Math.round(tokens / step)),
      (peakMemoryMiB / 1024).toFixed(0),
    ])
  }
}
const head = [
  'model and device',
  'problems x copies, new tokens',
  ...phases.map((phase) => `${phase} s`),
  'step s',
  'new tokens/s',
  'peak GiB',
]
// A whole experiment: its run folder's results, and the seconds of its steps.
const run = `${folder}/gpu-run-smollm2-svamp`
const results = await readJsonFile(`${run}/results.json`, versionOneSchema)
const stepSchema = z.object({ reward: z.number(), seconds: z.record(z.string(), z.number()) })
const stepsOf = async (path: string) =>
  (await readFile(path, 'utf8'))
    .trim()
    .split('\n')
    .map((line) => stepSchema.parse(JSON.parse(line)))
const jobs = (await readdir(run)).filter((name) => name.endsWith('.metrics.jsonl')).sort()
const steps = (await Promise.all(jobs.map((name) => stepsOf(`${run}/${name}`)))).map((all) =>
  all.map(({ seconds }) => seconds),
)
const parts = Object.keys(steps[0][0])
const ofPart = (part: string) => median(steps.flat().map((seconds) => seconds[part]))
const whole = steps.map((job) =>
  job.reduce((sum, seconds) => sum + parts.reduce((all, part) => all + seconds[part], 0), 0),
)
const timed =
  `A step in seconds (medians): ${parts.map((part) => `${part} ${ofPart(part).toFixed(2)}`).join(', ')}. ` +
  `All ${jobs.length} trainings of ${steps[0].length} steps: ${(whole.reduce((a, b) => a + b, 0) / 60).toFixed(1)} minutes.`
// One training of the same on WebGPU.
const slow = await stepsOf(`${run}-webgpu/baseline-s17.metrics.jsonl`)
const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
const rewards = slow.map(({ reward }) => reward)
const onWebgpu =
  `On WebGPU, where the run was stopped after its first training: baseline, seed 17, training reward ${mean(rewards.slice(0, 10)).toFixed(3)} ` +
  `in the first ten steps, ${mean(rewards.slice(-10)).toFixed(3)} in the last ten; ` +
  `${median(slow.map(({ seconds }) => Object.values(seconds).reduce((sum, value) => sum + value, 0))).toFixed(1)} s a step.`
const earlier = versionOneLines(await readJsonFile(`${run}-earlier.json`, versionOneSchema))
const before = `On an earlier state of the engine, with another start made alike: ${earlier[0][0]} ${earlier[0][1].split(': ')[0]}.`
/** What was predicted of steps on CUDA, beside what was found. */
const predictionsSchema = z.object({
  firstStep: z.number(),
  steps: z.array(
    z.object({
      shape: z.string(),
      problems: z.number(),
      copies: z.number(),
      ...Object.fromEntries([...phases, 'step'].map((part) => [part, z.number().optional()])),
    }),
  ),
})
const predictions = await readJsonFile(root('bench/gpu-predictions.json'), predictionsSchema)
const foundSteps = await Promise.all(
  predictions.steps.map(async (predicted) => {
    const { shape, problems, copies } = predicted
    const { measured } = await readJsonFile(`${folder}/gpu-cuda-${shape}.json`, benchSchema)
    const found = measured.find(
      (one) => one.problems === problems && one.copies === copies && one.noteTokens === 256,
    )
    if (found === undefined) throw new Error(`no step of ${shape}, ${problems} x ${copies} is stored`)
    const spent = (['draft', 'read', 'train', 'optimise'] as const).map((part) =>
      median(found.repetitions.map((times) => times[part])),
    )
    const given = predicted as Record<string, number | string | undefined>
    const said = ['draft', 'read', 'train', 'optimise'].map((part) => Number(given[part]).toFixed(2))
    return [
      `${shape}, ${problems} x ${copies}`,
      `${said.join(', ')}: ${Number(given.step).toFixed(1)}`,
      `${spent.map((value) => value.toFixed(2)).join(', ')}: ${spent.reduce((sum, value) => sum + value, 0).toFixed(1)}`,
    ]
  }),
)
await replaceSections(root('bench/README.md'), {
  'own kernels': table(['', 'predicted s: draft, read, train, optimise: in all', 'found s'], foundSteps),
})
const [columns, ...cells] = versionOneTable(results)
const said = versionOneLines(results).filter(
  ([what]) => !what.startsWith('hack') && what !== 'over-optimised',
)

/** What `selftest --device` and bench/gpu.ts said on the hardware, as they said it, in a sentence. */
async function saidOf(device: string, name: string): Promise<string> {
  const text = await readFile(`${folder}/selftest-${device}-h200.txt`, 'utf8')
  const line = (pattern: RegExp) => {
    const found = pattern.exec(text)?.[1]
    if (found === undefined) throw new Error(`the stored self-test of ${device} says nothing of ${pattern}`)
    return found
  }
  const drifts = [...text.matchAll(/sampled against trained log-probabilities: (\S+)/g)]
  const most = Math.max(...drifts.map(([, value]) => Number(value)))
  return (
    `${name} log-probabilities are within ${line(/log-probabilities against the CPU: (\S+),/)} of the CPU's and its gradients within ` +
    `${line(/LoRA gradients against the CPU, relative: (\S+),/)}; sampled and trained log-probabilities differ by ` +
    `${line(/sampling against training: (\S+),/)} at most there, and by ${most.toExponential(1)} over the steps below.`
  )
}

await replaceSections(root('docs/gpu.md'), {
  selftest: `${await saidOf('cuda', "CUDA's")}\n${await saidOf('webgpu', "WebGPU's")}`,
  gpu: table(head, [...rows, ...peerRows]),
  peer: table(['a step', 'as fast as TRL with its own `generate`, its median', 'its fastest'], ratios),
  first: `${firsts.join(', ')}.`,
  floor: floors.join('\n'),
  run: [
    table(columns, cells),
    '',
    ...said.map(([what, text]) => `- **${what}**: ${text}`),
    '',
    timed,
    '',
    onWebgpu,
    '',
    before,
  ].join('\n'),
})
