/**
 * Where the page finds its data: embedded in the report's file, or at the server that it came from. Both are one
 * `RunSource`, so the views need not know. Touches the document and the network; draws nothing.
 */
import { type Signal, signal } from '@preact/signals'
import type { ComparedRun } from '../view/compare.ts'
import type {
  BoardColumns,
  BoardText,
  BoardUpdate,
  BundledRun,
  LiveEvent,
  PageMode,
  RunListing,
  RunView,
} from '../view/types.ts'
import { fragmentOf } from './route.ts'

export interface RunSource {
  run: Signal<RunView | null>
  /** A new object whenever boards were added. */
  boards: Signal<BoardColumns>
  /** Whether all boards that there are have been loaded. */
  loaded: Signal<boolean>
  /** What stands between the page and its data, in words; null while all is well. */
  trouble: Signal<string | null>
  /** Changes when the server has read the run's files anew: texts asked for before may have been refused. */
  edition: Signal<string>
  text: (board: number) => Promise<BoardText>
  /** Boards with a post that holds `needle`, in lower case, a portion at a time. */
  search: (needle: string, stop: AbortSignal) => AsyncGenerator<{ found: number[]; share: number }>
  close: () => void
}

export const noBoards: BoardColumns = {
  job: [],
  step: [],
  problem: [],
  flags: '',
  problems: { id: [], question: [], gold: [], parts: [] },
}

const element = (id: string) => document.getElementById(id)?.textContent ?? ''

export const pageMode = (): PageMode => JSON.parse(element('mode')) as PageMode

/** Unpacks what report/html.ts packed: JSON, deflated, in base64. */
async function unpack<T>(base64: string): Promise<T> {
  const packed = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw'))
  return new Response(stream).json() as Promise<T>
}

/** Blocks kept unpacked: a few, so that memory stays bounded however many there are. */
const KEPT = 8

export function embeddedSource(): RunSource {
  const source = {
    run: signal<RunView | null>(JSON.parse(element('run')) as RunView),
    boards: signal(noBoards),
    loaded: signal(false),
    trouble: signal<string | null>(null),
    edition: signal(''),
  }
  unpack<BoardColumns>(element('columns')).then(
    (columns) => {
      source.boards.value = columns
      source.loaded.value = true
    },
    (error) => {
      source.trouble.value = `The boards in this file cannot be read (${error}): make the report again.`
    },
  )
  // The blocks follow the script, so they are there when the whole document is.
  const parsed = new Promise<{ from: number; count: number; element: Element }[]>((resolve) => {
    const collect = () =>
      resolve(
        [...document.querySelectorAll<HTMLElement>('script.block')].map((block) => ({
          from: Number(block.dataset.from),
          count: Number(block.dataset.count),
          element: block,
        })),
      )
    if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', collect)
    else collect()
  })
  const kept = new Map<number, Promise<BoardText[]>>()
  const openBlock = (number: number, block: Element): Promise<BoardText[]> => {
    const texts = kept.get(number) ?? unpack<BoardText[]>(block.textContent ?? '')
    kept.delete(number)
    kept.set(number, texts)
    for (const oldest of kept.keys()) {
      if (kept.size <= KEPT) break
      kept.delete(oldest)
    }
    return texts
  }
  return {
    ...source,
    async text(board) {
      const blocks = await parsed
      const number = blocks.findIndex(({ from, count }) => board >= from && board < from + count)
      if (number < 0) throw new Error('This board is not in the file.')
      return (await openBlock(number, blocks[number].element))[board - blocks[number].from]
    },
    async *search(needle, stop) {
      const blocks = await parsed
      for (const [number, { from, element }] of blocks.entries()) {
        if (stop.aborted) return
        const texts = await unpack<BoardText[]>(element.textContent ?? '')
        const found = texts.flatMap((text, i) => (holds(text, needle) ? [from + i] : []))
        yield { found, share: (number + 1) / blocks.length }
      }
    },
    close() {},
  }
}

export const holds = ({ rounds }: BoardText, needle: string): boolean =>
  rounds.flat().some(({ text }) => text.toLowerCase().includes(needle))

/** Where a run that goes on is asked for its boards. */
export interface BoardServer {
  update: (have: { from: number; fromProblem: number; epoch: string }) => Promise<BoardUpdate>
  text: (board: number, epoch: string) => Promise<BoardText>
  /** Boards of a portion with a post that holds `needle`. */
  search: (needle: string, portion: { from: number; count: number; epoch: string }) => Promise<number[]>
}

/** A run that is followed: whoever hears of its changes says so by `heard`. */
export function followedSource(server: BoardServer): RunSource & { heard: (event: LiveEvent) => void } {
  const source = {
    run: signal<RunView | null>(null),
    boards: signal(noBoards),
    loaded: signal(false),
    trouble: signal<string | null>(null),
    edition: signal(''),
  }
  const texts = new Map<string, Promise<BoardText>>()
  let wanted = { epoch: '', count: 0 }
  let busy = false
  let closed = false

  /** Asks for boards until there are as many as the latest event named. */
  const catchUp = async () => {
    if (busy) return
    busy = true
    try {
      while (
        !closed &&
        (wanted.epoch !== source.edition.value || source.boards.value.job.length < wanted.count)
      ) {
        const have = wanted.epoch === source.edition.value ? source.boards.value : noBoards
        const from = have.job.length
        const fromProblem = have.problems.id.length
        const update = await server.update({ from, fromProblem, epoch: wanted.epoch })
        const whole = update.from === 0 && update.fromProblem === 0
        source.boards.value = whole ? update.columns : joined(have, update.columns)
        source.edition.value = update.epoch
        wanted = {
          epoch: update.epoch,
          count: Math.max(wanted.epoch === update.epoch ? wanted.count : 0, source.boards.value.job.length),
        }
      }
      source.loaded.value = true
    } catch (error) {
      source.trouble.value = String(error instanceof Error ? error.message : error)
    } finally {
      busy = false
    }
  }
  return {
    ...source,
    heard({ run, boards }) {
      source.run.value = run
      source.trouble.value = null
      wanted = boards
      void catchUp()
    },
    text(board) {
      const epoch = source.edition.value
      const key = `${epoch}/${board}`
      const text = texts.get(key) ?? server.text(board, epoch)
      texts.delete(key)
      texts.set(key, text)
      text.catch(() => texts.delete(key))
      if (texts.size > 64) texts.delete(texts.keys().next().value!)
      return text
    },
    async *search(needle, stop) {
      const count = 4096
      const epoch = source.edition.value
      const all = source.boards.value.job.length
      for (let from = 0; from < all && !stop.aborted; from += count) {
        yield {
          found: await server.search(needle, { from, count, epoch }),
          share: Math.min(1, (from + count) / all),
        }
      }
    },
    close() {
      closed = true
    },
  }
}

/** The run `name` at this page's server, followed live. */
export function liveSource(name: string): RunSource {
  const base = `api/runs/${encodeURIComponent(name)}`
  const query = (fields: Record<string, string | number>) =>
    Object.entries(fields)
      .map(([key, value]) => `${key}=${encodeURIComponent(value)}`)
      .join('&')
  const source = followedSource({
    update: (have) => json(`${base}/boards?${query(have)}`),
    text: (board, epoch) => json(`${base}/boards/${board}?epoch=${epoch}`),
    search: (text, portion) => json(`${base}/search?${query({ text, ...portion })}`),
  })
  const events = new EventSource(`${base}/events`)
  events.addEventListener('run', (event) => {
    source.heard(JSON.parse((event as MessageEvent<string>).data) as LiveEvent)
  })
  events.addEventListener('trouble', (event) => {
    source.trouble.value = JSON.parse((event as MessageEvent<string>).data) as string
  })
  // The browser tries again by itself, unless the server refused.
  events.onerror = () => {
    source.trouble.value =
      events.readyState === EventSource.CLOSED
        ? 'The server does not give this run: go back to the list of runs.'
        : 'No connection to the server: trying again.'
  }
  return {
    ...source,
    close() {
      source.close()
      events.close()
    },
  }
}

/** Several runs: those of a server, or of a bundle. */
export interface RunsSource {
  list: () => Promise<RunListing[]>
  /** A run as it is now, with its boards once it is finished. */
  run: (name: string) => Promise<ComparedRun>
  /** Where a run is opened. */
  href: (name: string) => string
  /** Whether they change while the page is open. */
  live: boolean
}

export function serverRuns(): RunsSource {
  /** Boards by run, as they were when it finished. */
  const finished = new Map<string, { at: string; columns: BoardColumns }>()
  return {
    live: true,
    href: (name) => fragmentOf({ view: 'run', run: name, section: null }),
    list: () => json<RunListing[]>('api/runs'),
    async run(name) {
      const base = `api/runs/${encodeURIComponent(name)}`
      const run = await json<RunView>(base)
      const at = run.results?.timing.finishedAt
      if (at === undefined) return { run, columns: noBoards }
      const kept = finished.get(name)
      const columns = kept?.at === at ? kept.columns : await allBoards(base)
      finished.set(name, { at, columns })
      return { run, columns }
    },
  }
}

/** All boards of a run, portion by portion. */
async function allBoards(base: string): Promise<BoardColumns> {
  let all = noBoards
  let epoch = ''
  for (;;) {
    const query = `from=${all.job.length}&fromProblem=${all.problems.id.length}&epoch=${epoch}`
    const { columns, ...update } = await json<BoardUpdate>(`${base}/boards?${query}`)
    all = update.from === 0 && update.fromProblem === 0 ? columns : joined(all, columns)
    epoch = update.epoch
    if (columns.job.length === 0) return all
  }
}

export function bundledRuns(): RunsSource {
  const runs = JSON.parse(element('runs')) as BundledRun[]
  const columns = new Map<string, Promise<BoardColumns>>()
  return {
    live: false,
    href: (name) => `${encodeURIComponent(name)}/report.html`,
    list: async () => runs.map(({ listing }) => listing),
    async run(name) {
      const number = runs.findIndex(({ listing }) => listing.name === name)
      if (number < 0) throw new Error(`This bundle has no run ${name}.`)
      const boards = columns.get(name) ?? unpack<BoardColumns>(element(`columns-${number}`))
      columns.set(name, boards)
      return { run: runs[number].run, columns: await boards }
    },
  }
}

async function json<T>(path: string): Promise<T> {
  const response = await fetch(path)
  if (!response.ok) throw new Error(await response.text())
  return response.json() as Promise<T>
}

function joined(a: BoardColumns, b: BoardColumns): BoardColumns {
  return {
    job: a.job.concat(b.job),
    step: a.step.concat(b.step),
    problem: a.problem.concat(b.problem),
    flags: a.flags + b.flags,
    problems: {
      id: a.problems.id.concat(b.problems.id),
      question: a.problems.question.concat(b.problems.question),
      gold: a.problems.gold.concat(b.problems.gold),
      parts: a.problems.parts.concat(b.problems.parts),
    },
  }
}
