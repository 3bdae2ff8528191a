/**
 * Puts measured figures into docs/gpu.md, between its markers, from bench/results/gpu-*:
 *
 *   npx tsx scripts/gpu-figures.ts
 */
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { resultsSchema } from '../src/experiment/results.ts'
import { readJsonFile } from '../src/files.ts'
import { checkLines } from '../src/report/checks.ts'
import { tableHeader, tableRows } from '../src/report/rows.ts'
import { replaceSections, table } from './markdown.ts'

const root = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url))
const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1]

const phases = ['draft', 'prefill', 'read', 'train', 'optimise'] as const
const benchSchema = z.object({
  bench: z.literal('gpu'),
  shape: z.string(),
  device: z.string(),
  precision: z.string(),
  gpu: z.string(),
  measured: z.array(
    z.object({
      problems: z.number(),
      copies: z.number(),
      noteTokens: z.number(),
      replyTokens: z.number(),
      warmUp: z.record(z.enum(phases), z.number()).optional(),
      repetitions: z.array(z.record(z.enum(phases), z.number())),
      peakMemoryMiB: z.number(),
    }),
  ),
})

const folder = root('bench/results')
const files = (await readdir(folder)).filter((name) => /^gpu-(cuda|webgpu)-.*\.json$/.test(name)).sort()
const rows: string[][] = []
for (const file of files) {
  const { shape, device, precision, gpu, measured } = await readJsonFile(`${folder}/${file}`, benchSchema)
  for (const found of measured) {
    const { problems, copies, noteTokens, replyTokens, peakMemoryMiB, warmUp } = found
    // Of a device too slow for more, the first step, compiling included.
    const cold = found.repetitions.length === 0 && warmUp !== undefined
    const counted = cold ? [warmUp] : found.repetitions
    if (counted.length === 0) continue
    const seconds = phases.map((phase) => median(counted.map((times) => times[phase])))
    // Reading the boards computes their prompts too: prefill is a part of it.
    const step = seconds.reduce((sum, value) => sum + value, 0) - seconds[phases.indexOf('prefill')]
    const tokens = problems * copies * (noteTokens + replyTokens)
    rows.push([
      `${shape}, ${device} (${precision}), ${gpu}${cold ? ', first step' : ''}`,
      `${problems} x ${copies}, ${noteTokens} + ${replyTokens}`,
      ...seconds.map((value) => value.toFixed(2)),
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
const results = await readJsonFile(`${run}/results.json`, resultsSchema)
const stepSchema = z.object({ seconds: z.record(z.string(), z.number()) })
const jobs = (await readdir(run)).filter((name) => name.endsWith('.metrics.jsonl')).sort()
const steps = (
  await Promise.all(jobs.map(async (name) => (await readFile(`${run}/${name}`, 'utf8')).trim().split('\n')))
).map((lines) => lines.map((line) => stepSchema.parse(JSON.parse(line)).seconds))
const parts = Object.keys(steps[0][0])
const ofPart = (part: string) => median(steps.flat().map((seconds) => seconds[part]))
const whole = steps.map((job) =>
  job.reduce((sum, seconds) => sum + parts.reduce((all, part) => all + seconds[part], 0), 0),
)
const timed =
  `A step in seconds (medians): ${parts.map((part) => `${part} ${ofPart(part).toFixed(2)}`).join(', ')}. ` +
  `All ${jobs.length} trainings of ${steps[0].length} steps: ${(whole.reduce((a, b) => a + b, 0) / 60).toFixed(1)} minutes.`
const said = checkLines(results).filter(([what]) => !what.startsWith('hack') && what !== 'over-optimised')

await replaceSections(root('docs/gpu.md'), {
  gpu: table(head, rows),
  run: [
    table(tableHeader(results), tableRows(results)),
    '',
    ...said.map(([what, text]) => `- **${what}**: ${text}`),
    '',
    timed,
  ].join('\n'),
})
