/** Things made for a shape, kept for the next time that shape is asked for. */

/** So many are kept. */
const KEPT = 3

export interface Kept<T> {
  of(shape: string, make: () => Promise<T>): Promise<T>
  letGoOfAll(): void
}

export function keptByShape<T>(letGo: (made: T) => void): Kept<T> {
  const entries: { shape: string; made: T }[] = []
  const letGoOfAll = () => {
    for (const { made } of entries.splice(0)) letGo(made)
  }
  return {
    letGoOfAll,
    async of(shape, make) {
      const at = entries.findIndex((entry) => entry.shape === shape)
      if (at >= 0) {
        const [found] = entries.splice(at, 1)
        entries.push(found)
        return found.made
      }
      // Room for the new ones first.
      while (entries.length >= KEPT) letGo((entries.shift() as (typeof entries)[number]).made)
      let made: T
      try {
        made = await make()
      } catch (error) {
        if (entries.length === 0) throw error
        letGoOfAll()
        made = await make()
      }
      entries.push({ shape, made })
      return made
    },
  }
}
