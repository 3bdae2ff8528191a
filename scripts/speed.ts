/**
 * Puts measured figures into docs/speed.md, between its markers: `npx tsx scripts/speed.ts`.
 *
 * From bench/results: `default-run.jsonl` (bench/default-run.ts), `cpu-small.json` (bench/gpu.ts) and
 * `cpu-small-trl.json` (test/live/peers/trl_step.py).
 */
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { readJsonFile } from '../src/files.ts'
import { replaceSections, table } from './markdown.ts'

const at = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url))
const median = (values: readonly number[]) => {
  const sorted = values.toSorted((a, b) => a - b)
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2
}

const runSchema = z.object({
  of: z.string(),
  flags: z.array(z.string()),
  seconds: z.number(),
  sampled: z.number(),
  processor: z.string(),
  threads: z.number(),
  node: z.string(),
  date: z.string(),
})

async function defaultRuns(): Promise<string> {
  const lines = (await readFile(at('bench/results/default-run.jsonl'), 'utf8'))
    .split('\n')
    .filter(Boolean)
    .map((line) => runSchema.parse(JSON.parse(line)))
  const named = new Map<string, typeof lines>()
  for (const line of lines) {
    const name = [line.of, ...line.flags].join(' ')
    named.set(name, [...(named.get(name) ?? []), line])
  }
  const [first] = [...named.values()].map(rateOf)
  const rows = [...named].map(([name, some]) => {
    const { processor, threads, node, date } = some[0]
    const seconds = median(some.map((run) => run.seconds))
    return [
      `\`${name}\``,
      `${some.length}`,
      seconds.toFixed(1),
      `${Math.round(rateOf(some))}`,
      (rateOf(some) / first).toFixed(2),
      `${threads} x ${processor}, Node ${node.slice(1)}, ${date}`,
    ]
  })
  return table(['version', 'runs', 'seconds', 'sampled tokens a second', 'times the first', 'where'], rows)
}

/** Of a whole run's seconds, those of evaluations too. */
const rateOf = (some: readonly z.infer<typeof runSchema>[]) =>
  some[0].sampled / median(some.map(({ seconds }) => seconds))

const oursSchema = z.object({
  processor: z.string(),
  versions: z.record(z.string(), z.string()),
  measured: z.array(
    z.object({
      repetitions: z.array(
        z.object({ draft: z.number(), read: z.number(), train: z.number(), optimise: z.number() }),
      ),
    }),
  ),
})
const theirsSchema = z.object({
  versions: z.record(z.string(), z.string()),
  chosen: z.object({ microBatch: z.number() }),
  whole: z.object({
    rows: z.array(
      z.object({
        draft: z.number(),
        read: z.number(),
        forwardBackward: z.number(),
        optimiser: z.number(),
        step: z.number(),
      }),
    ),
  }),
})

async function step(): Promise<string> {
  const ours = await readJsonFile(at('bench/results/cpu-small.json'), oursSchema)
  const theirs = await readJsonFile(at('bench/results/cpu-small-trl.json'), theirsSchema)
  const { repetitions } = ours.measured[0]
  const { rows } = theirs.whole
  const pairs: [string, number[], number[]][] = [
    ['draft', repetitions.map((r) => r.draft), rows.map((r) => r.draft)],
    ['read', repetitions.map((r) => r.read), rows.map((r) => r.read)],
    ['forward and backward', repetitions.map((r) => r.train), rows.map((r) => r.forwardBackward)],
    ['optimiser', repetitions.map((r) => r.optimise), rows.map((r) => r.optimiser)],
    [
      'step',
      repetitions.map(({ draft, read, train, optimise }) => draft + read + train + optimise),
      rows.map((r) => r.step),
    ],
  ]
  const lines = pairs.map(([what, mine, other]) => [
    what,
    median(mine).toFixed(3),
    median(other).toFixed(3),
    (median(other) / median(mine)).toFixed(1),
  ])
  const peer = ['trl', 'torch', 'transformers', 'peft'].map((name) => `${name} ${theirs.versions[name]}`)
  return (
    `Seconds, medians of ${repetitions.length} and ${rows.length}, one after the other; 2 cores of an ${ours.processor}; ` +
    `onnxruntime-node ${ours.versions['onnxruntime-node']}; ${peer.join(', ')}, micro-batches of ${theirs.chosen.microBatch}.\n\n` +
    table(['', 'this project', 'TRL', 'ratio'], lines)
  )
}

await replaceSections(at('docs/speed.md'), { 'default run': await defaultRuns(), step: await step() })
