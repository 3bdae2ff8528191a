/** Which runs a list shows, and in which order. Pure. */
import type { RunListing } from '../view/types.ts'

export const runOrders = ['newest', 'name', 'difference'] as const
export type RunOrder = (typeof runOrders)[number]

/** Those that hold the search and have every tag. */
export function listedRuns(
  runs: readonly RunListing[],
  { search, tags, order }: { search: string; tags: ReadonlySet<string>; order: RunOrder },
): RunListing[] {
  const needle = search.trim().toLowerCase()
  const found = runs.filter(
    (run) => [...tags].every((tag) => run.notes.tags.includes(tag)) && haystack(run).includes(needle),
  )
  const byName = (a: RunListing, b: RunListing) => (a.name < b.name ? -1 : 1)
  const byChange = (a: RunListing, b: RunListing) => (a.changed > b.changed ? -1 : 1)
  if (order === 'name') return found.sort(byName)
  if (order === 'newest') return found.sort(byChange)
  return found.sort((a, b) => largest(b) - largest(a) || byName(a, b))
}

const haystack = ({ name, task, model, arms, notes }: RunListing): string =>
  [name, task, model, ...arms, ...notes.tags, notes.note].join('\n').toLowerCase()

/** The largest difference that a run found; below all others where it found none. */
const largest = ({ found }: RunListing): number =>
  Math.max(-2, ...(found?.contrasts ?? []).map(({ delta }) => delta))
