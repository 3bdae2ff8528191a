/**
 * Puts measured figures into docs/gpu.md, between its markers, from bench/results/gpu-*.json:
 *
 *   npx tsx scripts/gpu-figures.ts
 */
import { readdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { readJsonFile } from '../src/files.ts'
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
  for (const { problems, copies, noteTokens, replyTokens, repetitions, peakMemoryMiB } of measured) {
    const seconds = phases.map((phase) => median(repetitions.map((times) => times[phase])))
    // Reading the boards computes their prompts too: prefill is a part of it.
    const step = seconds.reduce((sum, value) => sum + value, 0) - seconds[phases.indexOf('prefill')]
    const tokens = problems * copies * (noteTokens + replyTokens)
    rows.push([
      `${shape}, ${device} (${precision}), ${gpu}`,
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
await replaceSections(root('docs/gpu.md'), { gpu: table(head, rows) })
