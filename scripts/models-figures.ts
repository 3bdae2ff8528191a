/**
 * Puts measured figures into docs/models.md, between its markers, so that no number there is typed:
 *
 *   npx tsx scripts/models-figures.ts
 *
 * From bench/results: `memory.json` (npx tsx bench/memory.ts), `peers-speed.json` (npm run test:peers -- speed), and what
 * the page's two commands leave, `smollm2-svamp.json` (eval --json) and `smollm2-training.json` (a run's results.json).
 */
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { readJsonFile } from '../src/files.ts'
import { alignedRows } from '../src/report/layout.ts'
import { replaceSections, table } from './markdown.ts'
import { versionOneLines, versionOneSchema, versionOneTable } from './version-1.ts'

const root = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url))
const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1]
const machineSchema = z.object({ processor: z.string(), threads: z.number() })

const memorySchema = z.object({
  machine: machineSchema.extend({ memoryGiB: z.number() }),
  batch: z.object({ prompts: z.number(), completions: z.number(), lora: z.object({ rank: z.number() }) }),
  parameters: z.record(z.string(), z.number()),
  cases: z.array(
    z.object({
      model: z.string(),
      length: z.number(),
      adapters: z.number(),
      start: z.number(),
      load: z.number(),
      sample: z.number(),
      train: z.number(),
    }),
  ),
})

async function memory(): Promise<string> {
  const { machine, batch, parameters, cases } = await readJsonFile(
    root('bench/results/memory.json'),
    memorySchema,
  )
  const gib = (mib: number) => (mib / 1024).toFixed(2)
  const weights = (model: string) => gib((parameters[model] * 4) / 2 ** 20)
  const ordered = cases.toSorted(
    (a, b) => parameters[a.model] - parameters[b.model] || a.adapters - b.adapters || a.length - b.length,
  )
  const rows = ordered.map(({ model, length, adapters, load, sample, train }) => [
    `${(parameters[model] / 1e6).toFixed(0)} M`,
    `${length}`,
    `${adapters}`,
    weights(model),
    gib(load),
    gib(sample),
    gib(train),
  ])
  const head = ['parameters', 'tokens', 'adapters', 'weights', 'loading', 'sampling', 'training step']
  return `Peak memory of the whole process in GiB, highest so far at each stage (\`npx tsx bench/memory.ts\`; random weights in bfloat16 files, computed in float32; ${batch.completions} completions of ${batch.prompts} prompts, half of each sequence its prompt; LoRA of rank ${batch.lora.rank}; ${machine.threads} cores of an ${machine.processor}, ${machine.memoryGiB} GiB; ${Math.round(median(cases.map(({ start }) => start)))} MiB are the runtime's before anything is loaded).

${table(head, rows)}`
}

const sideSchema = z.object({
  load: z.number(),
  generation: z.array(z.number()),
  training: z.array(z.number()),
  peakLoadedMiB: z.number(),
  peakMiB: z.number(),
})
const speedSchema = z.object({
  machine: machineSchema,
  versions: z.record(z.string(), z.string()),
  shapes: z.object({
    prompts: z.number(),
    copies: z.number(),
    newTokens: z.number(),
    generated: z.number(),
    trained: z.number(),
    microBatch: z.number(),
  }),
  turns: z.array(z.object({ ours: sideSchema, theirs: sideSchema, load: z.array(z.number()) })),
})

async function speed(): Promise<string> {
  const { machine, versions, shapes, turns } = await readJsonFile(
    root('bench/results/peers-speed.json'),
    speedSchema,
  )
  const sides = ['ours', 'theirs'] as const
  const rate = (name: string, kind: 'generation' | 'training', tokens: number) => {
    const [a, b] = sides.map((side) => tokens / median(turns.flatMap((turn) => turn[side][kind])))
    return [name, `${a.toFixed(0)} tokens/s`, `${b.toFixed(0)} tokens/s`, (a / b).toFixed(2)]
  }
  const least = (
    name: string,
    kind: 'load' | 'peakLoadedMiB' | 'peakMiB',
    show: (value: number) => string,
  ) => {
    const [a, b] = sides.map((side) => Math.max(...turns.map((turn) => turn[side][kind])))
    return [name, show(a), show(b), (b / a).toFixed(2)]
  }
  const seconds = (value: number) => `${value.toFixed(1)} s`
  const gib = (value: number) => `${(value / 1024).toFixed(1)} GiB`
  const { prompts, copies, newTokens, generated, trained, microBatch } = shapes
  const loads = turns.map(({ load }) => load[0].toFixed(1)).join(' and ')
  const rows = [
    rate(`generation, ${generated} new tokens`, 'generation', generated),
    rate(`forward+backward, ${trained} tokens`, 'training', trained),
    least('load', 'load', seconds),
    least('peak memory, loaded', 'peakLoadedMiB', gib),
    least('peak memory, trained', 'peakMiB', gib),
  ]
  return `SmolLM2-135M-Instruct in float32 on ${machine.threads} cores of an ${machine.processor}, this project (onnxruntime-node ${versions['onnxruntime-node']}) and PyTorch ${versions.torch} with transformers ${versions.transformers} and PEFT ${versions.peft} in turn, medians of ${turns.length * turns[0].ours.generation.length} rounds (\`npm run test:peers -- speed\`; load average ${loads} at the end of each turn). Generation: ${prompts} prompts, ${copies} samples of each, ${newTokens} tokens. Forward and backward: 24 completions in groups of 4 with LoRA of rank 32; PyTorch ${microBatch} sequences at a time. Loading counts here until a first token is there, its graphs compiled. The ratio is this project's advantage.

${table(['', 'this project', 'PyTorch', 'ratio'], rows)}`
}

const evaluationSchema = z.object({
  problems: z.number(),
  boards: z.array(
    z.object({
      reads: z.string(),
      k: z.number(),
      passAt1: z.number(),
      ci95: z.tuple([z.number(), z.number()]),
      passAtK: z.number(),
      counts: z.record(z.string(), z.number()),
    }),
  ),
  difference: z.object({ passAt1: z.number(), ci95: z.tuple([z.number(), z.number()]) }),
})

async function evaluation(): Promise<string> {
  const { boards, difference } = await readJsonFile(
    root('bench/results/smollm2-svamp.json'),
    evaluationSchema,
  )
  const three = (value: number) => value.toFixed(3)
  const interval = ([low, high]: readonly number[]) => `[${three(low)}, ${three(high)}]`
  const counts = ['noteAcc', 'voteAcc', 'anyNote', 'switched', 'rescued', 'misled', 'notesCut', 'repliesCut']
  const names = [
    'note_acc',
    'vote_acc',
    'any_note',
    'switched',
    'rescued',
    'misled',
    'notes cut',
    'replies cut',
  ]
  const rows = boards.map(({ reads, passAt1, ci95, passAtK, counts: found }) => [
    reads,
    `${three(passAt1)} ${interval(ci95)}`,
    three(passAtK),
    ...counts.map((name) => three(found[name])),
  ])
  const head = ['board', 'pass@1', `pass@${boards[0].k}`, ...names]
  const sign = difference.passAt1 < 0 ? '' : '+'
  return `${table(head, rows)}

Paired by problem, shared less own is ${sign}${three(difference.passAt1)} ${interval(difference.ci95)}.`
}

async function training(): Promise<string> {
  const results = await readJsonFile(root('bench/results/smollm2-training.json'), versionOneSchema)
  const { model, task, seeds } = results
  const lines = versionOneLines(results)
  const label = Math.max(...lines.map(([what]) => what.length))
  return [
    '```text',
    `${model.name} on ${task.name}: ${task.holdout} held-out problems, seeds ${seeds.join(', ')}`,
    '',
    ...alignedRows(versionOneTable(results)),
    '',
    ...lines.map(([what, said]) => `${what.padEnd(label)}  ${said}`),
    '```',
  ].join('\n')
}

await replaceSections(root('docs/models.md'), {
  evaluation: await evaluation(),
  training: await training(),
  speed: await speed(),
  memory: await memory(),
})
