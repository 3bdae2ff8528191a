/**
 * Shows texts at the pace of a reader: they come some thousand tokens a second, and grow on the page a few characters a
 * frame. Pure.
 */

/** Characters a second at least. */
const PACE = 75
/** A text that is far behind what is there is caught up with within about so many seconds. */
const CATCH_UP = 1.2

export interface Revealed {
  /** Characters shown, perhaps a part of one. */
  shown: number
  /** Characters that there are. */
  there: number
}

/** Characters shown of each text `seconds` later. */
export function advance(texts: readonly Revealed[], seconds: number): number[] {
  return texts.map(({ shown, there }) =>
    Math.min(there, shown + seconds * Math.max(PACE, (there - shown) / CATCH_UP)),
  )
}
