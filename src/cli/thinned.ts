/**
 * A job's events, with its tokens told a few times a second instead of at every step of every sampling: the process that
 * hears of all jobs at a time would else spend a good part of a core on counting. Pure but for the clock.
 */
import type { RunEvent } from '../experiment/job.ts'

/** Milliseconds between two tellings of tokens: what a reader of a rate does not notice. */
const APART = 250

/** What passes events on to `tell`; tokens before whatever follows them, and none lost that anything follows. */
export function thinned(tell: (event: RunEvent) => void, now = () => performance.now()): typeof tell {
  let newTokens = 0
  let told = Number.NEGATIVE_INFINITY
  return (event) => {
    const tokens = event.type === 'tokens'
    if (tokens) newTokens += event.newTokens
    if (tokens && now() - told < APART) return
    if (newTokens > 0) {
      tell({ type: 'tokens', newTokens })
      newTokens = 0
      told = now()
    }
    if (!tokens) tell(event)
  }
}
