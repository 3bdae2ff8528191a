import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RunEvent } from '../experiment/job.ts'
import { thinned } from './thinned.ts'

const evaluated: RunEvent = { type: 'evaluated', job: 'a-s1', problems: 1, of: 2, right: 0.5 }

/** What is told of events, each so many milliseconds after the one before. */
function told(events: readonly { event: RunEvent; after: number }[]): RunEvent[] {
  const heard: RunEvent[] = []
  let clock = 0
  const hear = thinned(
    (event) => heard.push(event),
    () => clock,
  )
  for (const { event, after } of events) {
    clock += after
    hear(event)
  }
  return heard
}

const tokens = (newTokens: number, after = 0) => ({ event: { type: 'tokens' as const, newTokens }, after })

describe('thinned events', () => {
  it('add tokens up for a quarter of a second, and tell them before what follows', () => {
    const events = [tokens(5), tokens(7, 100), tokens(1, 100), tokens(2, 50), tokens(3, 10)]
    expect(told([...events, { event: evaluated, after: 1 }])).toEqual([
      { type: 'tokens', newTokens: 5 },
      { type: 'tokens', newTokens: 10 },
      { type: 'tokens', newTokens: 3 },
      evaluated,
    ])
  })

  it('lose nothing that anything follows, nor its order', () => {
    const event = fc.oneof(
      fc.record({
        event: fc.record({ type: fc.constant('tokens' as const), newTokens: fc.nat(9) }),
        after: fc.nat(300),
      }),
      fc.record({ event: fc.constant(evaluated), after: fc.nat(300) }),
    )
    fc.assert(
      fc.property(fc.array(event), (drawn) => {
        const all = [...drawn, { event: evaluated, after: 0 }]
        // Tokens between two other events, summed.
        const sums = (events: readonly RunEvent[]) => {
          const found = [0]
          for (const one of events) {
            if (one.type === 'tokens') found[found.length - 1] += one.newTokens
            else found.push(0)
          }
          return found
        }
        expect(sums(told(all))).toEqual(sums(all.map(({ event }) => event)))
      }),
    )
  })
})
