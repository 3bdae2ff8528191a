/**
 * Fills the cores: work is cut into pieces that run at the same time, one a core, each on a single thread. Which
 * piece runs where, and the order in which results are combined, never depend on timing.
 */

/** Runs `work` on each item, at most `lanes` at a time; results in the items' order. */
export async function inLanes<T, R>(
  items: readonly T[],
  lanes: number,
  work: (item: T, index: number) => Promise<R>,
): Promise<R[]> {
  const results = new Array<R>(items.length)
  let next = 0
  let failed = false
  const lane = async () => {
    while (next < items.length && !failed) {
      const index = next++
      try {
        results[index] = await work(items[index], index)
      } catch (error) {
        failed = true
        throw error
      }
    }
  }
  const running = Array.from({ length: Math.min(lanes, items.length) }, lane)
  // Every lane ends before an error is passed on: nothing goes on computing into buffers given back.
  const ends = await Promise.allSettled(running)
  for (const end of ends) if (end.status === 'rejected') throw end.reason
  return results
}
