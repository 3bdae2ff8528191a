/**
 * How a step's seconds and memory grow, for docs/speed.md: exponents fitted to bench/gpu.ts's sweeps, each beside that of
 * the arithmetic at the same sizes, and what a round of notes more cost on the map of credit.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { cellSchema, usual } from '../bench/credit-map-cell.ts'
import { operations, type Sizes, shapes, trainedTokens } from '../bench/gpu-step.ts'
import { readJsonFile } from '../src/files.ts'
import { table } from './markdown.ts'
import { exponent, median } from './numbers.ts'

const parts = ['draft', 'read', 'train', 'optimise'] as const
const measuredSchema = z.object({
  problems: z.number(),
  copies: z.number(),
  questionTokens: z.number(),
  noteTokens: z.number(),
  replyTokens: z.number(),
  rank: z.number(),
  warmUp: z.unknown().optional(),
  repetitions: z.array(
    z.object({ draft: z.number(), read: z.number(), train: z.number(), optimise: z.number() }),
  ),
  idleMemoryMiB: z.number().default(0),
  peakMemoryMiB: z.number(),
})
const benchSchema = z.object({
  shape: z.string(),
  device: z.string(),
  gpu: z.string(),
  processor: z.string(),
  parameters: z.number(),
  measured: z.array(measuredSchema),
})
type Bench = z.infer<typeof benchSchema>

/** What an exponent may be above the arithmetic's without being marked: it is known to no better. */
const MARGIN = 0.05

/** Seconds and memory of a step at one size, and what its arithmetic comes to. */
interface Point {
  size: number
  seconds: Record<(typeof parts)[number], number>
  operations: ReturnType<typeof operations>
  /** Beyond what was in use before the first step; null where the process had done other sizes, whose memory it may hold. */
  memoryMiB: number | null
  /** By which memory would grow if all of a step were held at once. */
  held: number
}

function pointOf(size: number, shape: string, found: Bench['measured'][number], held: number): Point {
  return {
    size,
    seconds: Object.fromEntries(
      parts.map((part) => [part, median(found.repetitions.map((seconds) => seconds[part]))]),
    ) as Point['seconds'],
    operations: operations(shapes[shape], found),
    memoryMiB: found.warmUp === undefined ? null : found.peakMemoryMiB - found.idleMemoryMiB,
    held,
  }
}

/** Tables of what grows how, from the files of bench/gpu.ts in `folder`. */
export async function growth(folder: string): Promise<string> {
  const names = (await readdir(folder)).filter((name) => /^gpu-(cuda|webgpu)-.*\.json$/.test(name))
  const benches = await Promise.all(
    [...names.sort(), 'cpu-small-sweep.json', 'cpu-smollm2-135m-step.json'].map((name) =>
      readJsonFile(join(folder, name), benchSchema),
    ),
  )
  const swept = benches
    .filter(({ measured }) => measured.length > 1)
    .flatMap((bench) =>
      (['copies', 'problems', 'noteTokens'] as const).map((what) => {
        const [base, ...others] = bench.measured
        const points = [base, ...others.filter((found) => found[what] !== base[what])]
          .sort((a, b) => a[what] - b[what])
          .map((found) => pointOf(found[what], bench.shape, found, trainedTokens(found satisfies Sizes)))
        return row(`${bench.shape}, ${bench.device}`, spoken[what], points)
      }),
    )
  const devices = [...new Set(benches.map(({ device }) => device))]
  const bySize = devices.flatMap((device) => {
    // Of a model that has several files the one with the sweep.
    const bases = new Map(
      benches
        .filter((bench) => bench.device === device && bench.measured[0].repetitions.length > 0)
        .sort((a, b) => a.measured.length - b.measured.length)
        .map((bench) => [bench.parameters, bench]),
    )
    const points = [...bases]
      .sort(([a], [b]) => a - b)
      .map(([size, bench]) => pointOf(size, bench.shape, bench.measured[0], size))
    return points.length > 1 ? [row(device, 'parameters', points)] : []
  })
  return table(
    ['model and device', 'what grows', 'sizes', 'draft', 'read', 'forward, backward', 'step', 'memory'],
    [...swept, ...bySize],
  )
}

const spoken = { copies: 'copies', problems: 'problems', noteTokens: 'tokens a note' }

function row(where: string, what: string, points: readonly Point[]): string[] {
  const of = (value: (point: Point) => number, arithmetic: (point: Point) => number) => {
    const [found, reckoned] = [value, arithmetic].map((each) =>
      exponent(points.map((point) => [point.size, each(point)])),
    )
    const text = `${found.toFixed(2)} of ${reckoned.toFixed(2)}`
    return found > reckoned + MARGIN ? `**${text}**` : text
  }
  const whole = (each: Point['operations']) => each.draft + each.read + each.train
  const sum = ({ seconds }: Point) => parts.reduce((all, part) => all + seconds[part], 0)
  return [
    where,
    what,
    points.map(({ size }) => shortened(size)).join(', '),
    ...(['draft', 'read', 'train'] as const).map((part) =>
      of(
        (point) => point.seconds[part],
        (point) => point.operations[part],
      ),
    ),
    of(sum, (point) => whole(point.operations)),
    points.every(({ memoryMiB }) => memoryMiB !== null)
      ? of(
          (point) => point.memoryMiB!,
          (point) => point.held,
        )
      : '',
  ]
}

function shortened(size: number): string {
  if (size < 1e5) return `${size}`
  return size < 1e9 ? `${(size / 1e6).toFixed(size < 1e7 ? 1 : 0)}M` : `${(size / 1e9).toFixed(1)}B`
}

/** What a step of training takes with one round of notes and with two, by the cells of the map of credit. */
export async function rounds(path: string): Promise<string> {
  const cells = (await readFile(path, 'utf8'))
    .split('\n')
    .filter(Boolean)
    .map((line) => cellSchema.parse(JSON.parse(line)))
    .filter(
      ({ reads, copies, budget }) => reads === usual.reads && copies === usual.copies && budget === null,
    )
  const groups = new Map<string, typeof cells>()
  for (const cell of cells) {
    const name = `${cell.world}, \`${cell.rule}\``
    groups.set(name, [...(groups.get(name) ?? []), cell])
  }
  const rows = [...groups].flatMap(([name, some]) => {
    const few = some.filter((cell) => cell.rounds === usual.rounds)
    return [...new Set(some.map((cell) => cell.rounds))]
      .filter((count) => count !== usual.rounds)
      .map((count) => {
        const more = some.filter((cell) => cell.rounds === count)
        const seconds = (of: typeof cells) => median(of.map((cell) => cell.seconds.train / cell.steps))
        const times = (value: (cell: (typeof cells)[number]) => number) =>
          (median(more.map(value)) / median(few.map(value))).toFixed(2)
        return [
          name,
          `${usual.rounds}, ${count}`,
          `${few.length}, ${more.length}`,
          `${seconds(few).toFixed(2)}, ${seconds(more).toFixed(2)}`,
          times((cell) => cell.seconds.train / cell.steps),
          times((cell) => cell.tokens.sampled / cell.steps),
          times((cell) => cell.tokens.trained / cell.steps),
          times((cell) => cell.seconds.evaluation),
        ]
      })
  })
  return table(
    [
      'world, rule',
      'rounds',
      'seeds',
      'seconds a step',
      'times',
      'times the tokens sampled',
      'tokens trained',
      'seconds of evaluation, times',
    ],
    rows,
  )
}
