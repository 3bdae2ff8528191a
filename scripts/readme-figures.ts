/**
 * Puts the first lines of a run's table into README.md and the bench's figures into docs/engine.md, between their markers, so that
 * no number there is typed. The run is that of the README's command, in runs/example after `npm run build:docs`.
 *
 *   npx tsx scripts/readme-figures.ts RUN_FOLDER
 */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { readJsonFile } from '../src/files.ts'
import { resultsSchema } from '../src/record/results.ts'
import { tableText } from '../src/report/table.ts'
import { replaceSections, table } from './markdown.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const run = process.argv[2]
if (run === undefined) throw new Error('give the run folder: npx tsx scripts/readme-figures.ts RUN_FOLDER')

const phasesSchema = z.object({
  machine: z.object({ processor: z.string(), threads: z.number() }),
  versions: z.record(z.string(), z.string()),
  peakMiB: z.number(),
  phases: z.array(
    z.object({ phase: z.string(), seconds: z.array(z.number()), tokens: z.number(), what: z.string() }),
  ),
})

const results = await readJsonFile(join(run, 'results.json'), resultsSchema)
const bench = await readJsonFile(join(root, 'bench/results/phases.json'), phasesSchema)

const median = (values: number[]) => [...values].sort((a, b) => a - b)[values.length >> 1]
const rows = bench.phases.map(({ phase, seconds, tokens, what }) => [
  phase,
  median(seconds).toFixed(3),
  tokens === 0 ? '' : `${Math.round(tokens / median(seconds))} ${what}`,
])
// What a person reads first: the two sentences, what it was, the arms. What they rest on comes after.
const [sentences, what, arms] = tableText(results).split('\n\n')

await replaceSections(join(root, 'README.md'), {
  result: ['```text', sentences, '', what, '', arms, '```'].join('\n'),
})
await replaceSections(join(root, 'docs/engine.md'), {
  speed: `${bench.machine.threads} cores of an ${bench.machine.processor}, Node ${bench.versions.node.slice(1)}, onnxruntime-node ${bench.versions['onnxruntime-node']} (\`npm run bench\`; medians; peak memory ${bench.peakMiB.toFixed(0)} MiB). One step of the default experiment is
a draft, a read, a forward and backward pass over the replies that earned more or less than their group, and an
optimiser step.

${table(['phase', 'seconds', 'a second'], rows)}`,
})
