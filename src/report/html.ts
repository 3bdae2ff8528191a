/**
 * report.html: a run as one file that opens without a network. Everything small stands before the script, so that it
 * can draw at once; the boards' texts follow in compressed blocks, which the page unpacks one at a time as they are
 * read. Reads the run folder and writes that one file.
 */
import { base64, utf8 } from '../bytes.ts'
import { writeAtomically } from '../files.ts'
import type { FileHandle } from '../platform/files.ts'
import { join } from '../platform/path.ts'
import { flagStarts, layoutOf } from '../view/flags.ts'
import { openRun, type RunIndex } from '../view/run-index.ts'
import type { BoardColumns, BoardText, RunView } from '../view/types.ts'
import { dataElement, pageEnd, pageStart, readPage } from './page.ts'

/** Text of a block, in characters: large enough to compress well, small enough to unpack in a few milliseconds. */
const BLOCK = 1 << 18
/** Boards read from the folder at a time. */
const PORTION = 64

/**
 * Writes the report of a run, finished or not, and returns its path: report.html in the run folder unless told.
 *
 * @throws UserError for a folder that is no run, and where the page cannot be written.
 */
export async function writeReport(folder: string, out?: string): Promise<string> {
  const page = await readPage()
  const run = await openRun(folder)
  const path = out ?? join(run.folder, 'report.html')
  const view = run.view()
  const order = readingOrder(run.columns())
  const columns = await compress(reordered(run.columns(), order, view))
  const write = async (file: FileHandle) => {
    await file.writeFile(
      pageStart(
        page,
        `${view.name} - message-board`,
        { kind: 'report' },
        {
          run: { json: view },
          columns: { base64: columns },
        },
      ),
    )
    for await (const block of blocks(run, order)) {
      const { from, texts } = block
      const attributes = `class="block" data-from="${from}" data-count="${texts.length}"`
      await file.writeFile(`${dataElement(attributes, await compress(texts))}\n`)
    }
    await file.writeFile(pageEnd)
  }
  await writeAtomically(path, write)
  return path
}

/** Held-out boards problem by problem, so that one block holds all jobs' boards of a problem; then the training's. */
function readingOrder({ step, problem, job }: BoardColumns): number[] {
  const numbers = Array.from(job, (_, i) => i)
  const rank = (i: number) => (step[i] === 0 ? problem[i] : Number.POSITIVE_INFINITY)
  return numbers.sort((a, b) => (rank(a) === rank(b) ? job[a] - job[b] || a - b : rank(a) - rank(b)))
}

/** The boards of these numbers, in that order. */
export function reordered(
  columns: BoardColumns,
  order: readonly number[],
  { jobs, sides }: RunView,
): BoardColumns {
  const { job, step, problem, flags, problems } = columns
  const widths = sides.map((side) => layoutOf(side).width)
  const starts = flagStarts(
    job,
    jobs.map(({ side }) => widths[side]),
  )
  return {
    job: order.map((i) => job[i]),
    step: order.map((i) => step[i]),
    problem: order.map((i) => problem[i]),
    flags: order.map((i) => flags.slice(starts[i], starts[i + 1])).join(''),
    problems,
  }
}

async function* blocks(
  run: RunIndex,
  order: readonly number[],
): AsyncGenerator<{ from: number; texts: BoardText[] }> {
  let block: { from: number; texts: BoardText[] } = { from: 0, texts: [] }
  let size = 0
  for (let at = 0; at < order.length; at += PORTION) {
    for (const text of await run.texts(order.slice(at, at + PORTION))) {
      block.texts.push(text)
      size += text.rounds.flat().reduce((sum, post) => sum + post.text.length, 0)
      if (size < BLOCK) continue
      yield block
      block = { from: block.from + block.texts.length, texts: [] }
      size = 0
    }
  }
  if (block.texts.length > 0) yield block
}

/** As the page unpacks it: JSON, deflated, in base64. */
export async function compress(value: unknown): Promise<string> {
  const packed = new Blob([utf8(JSON.stringify(value))])
    .stream()
    .pipeThrough(new CompressionStream('deflate-raw'))
  return base64(new Uint8Array(await new Response(packed).arrayBuffer()))
}
