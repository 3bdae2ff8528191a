/**
 * A run as two Parquet files, for DuckDB, pandas, Polars and the hub's viewer: `posts.parquet` has a row for each post of
 * every board, and `metrics.parquet` one for each training step, under TensorBoard's names. Reads a run folder and
 * writes those two files.
 */

import { type BasicType, type ColumnSource, parquetWriteBuffer } from 'hyparquet-writer'
import { writeFileAtomic } from '../files.ts'
import { stepScalars } from '../log/tensorboard.ts'
import { mkdir } from '../platform/files.ts'
import { join } from '../platform/path.ts'
import { type ExportedRun, readExported, readRun } from './jobs.ts'

type Cell = string | number | boolean | null

/** What a row of posts.parquet says; docs/exports.md explains each. */
const postColumns = {
  job: 'STRING',
  arm: 'STRING',
  seed: 'INT32',
  trained: 'BOOLEAN',
  phase: 'STRING',
  step: 'INT32',
  board: 'INT32',
  problem: 'STRING',
  question: 'STRING',
  gold: 'STRING',
  /** JSON. */
  parts: 'STRING',
  round: 'INT32',
  round_name: 'STRING',
  is_final: 'BOOLEAN',
  seat: 'INT32',
  seat_name: 'STRING',
  /** JSON: pairs of round and seat. */
  reads: 'STRING',
  text: 'STRING',
  answer: 'STRING',
  correct: 'BOOLEAN',
  cut: 'BOOLEAN',
  tokens: 'INT32',
  credit: 'DOUBLE',
} as const satisfies Record<string, BasicType>

/** Writes both files into `out` and returns their paths. @throws UserError as readRun and readJob do. */
export async function exportParquet(folder: string, out: string): Promise<string[]> {
  const run = await readRun(folder)
  const { posts, metrics } = await tablesOf(run)
  await mkdir(out)
  const paths = ['posts.parquet', 'metrics.parquet'].map((name) => join(out, name))
  await writeFileAtomic(paths[0], packed(run, posts, postColumns))
  const names = [...new Set(metrics.flatMap((row) => Object.keys(row)))]
  const kinds = Object.fromEntries(names.map((name) => [name, metricKind(name)]))
  await writeFileAtomic(paths[1], packed(run, metrics, kinds))
  return paths
}

const metricKind = (name: string): BasicType =>
  name === 'job' || name === 'arm' ? 'STRING' : name === 'seed' || name === 'step' ? 'INT32' : 'DOUBLE'

async function tablesOf(run: ExportedRun) {
  const posts: Record<keyof typeof postColumns, unknown>[] = []
  const metrics: Record<string, Cell>[] = []
  for (const job of run.jobs) {
    const { protocol } = run.record.identity.arms[job.arm]
    const logs = await readExported(run, job)
    const its = { job: job.name, arm: job.arm, seed: job.seed }
    for (const line of logs.metrics) metrics.push({ ...its, step: line.step, ...stepScalars(line) })
    for (const { phase, step, board, problem, rounds, credit } of logs.rollouts) {
      for (const [r, all] of rounds.entries()) {
        for (const [i, post] of all.entries()) {
          posts.push({
            ...its,
            trained: job.seed !== null,
            phase,
            step: step ?? null,
            board: board ?? 0,
            problem: problem.id,
            question: problem.question,
            gold: problem.gold,
            parts: JSON.stringify(problem.parts ?? []),
            round: r,
            round_name: protocol.rounds[r].name,
            is_final: r === rounds.length - 1,
            seat: post.seat,
            seat_name: protocol.seats[post.seat].name,
            reads: JSON.stringify(post.reads),
            text: post.text,
            answer: post.answer,
            correct: post.correct,
            cut: post.cut,
            tokens: post.tokens,
            credit: credit?.[r][i] ?? null,
          })
        }
      }
    }
  }
  return { posts, metrics }
}

/** Rows as a file of those columns; what a row does not have is null. */
function packed(
  { name, record }: ExportedRun,
  rows: readonly Record<string, unknown>[],
  columns: Readonly<Record<string, BasicType>>,
): Uint8Array {
  const columnData = Object.entries(columns).map(
    ([name, type]): ColumnSource => ({ name, type, data: rows.map((row) => row[name] ?? null) }),
  )
  const about = { run: name, model: record.model, task: record.identity.shared.task.name }
  const kvMetadata = Object.entries(about).map(([key, value]) => ({ key, value }))
  const createdBy = `message-board version ${record.versions['message-board']}`
  return new Uint8Array(parquetWriteBuffer({ columnData, kvMetadata, createdBy }))
}
