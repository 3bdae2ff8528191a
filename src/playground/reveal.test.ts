import fc from 'fast-check'
import { expect, it } from 'vitest'
import { advance } from './reveal.ts'

it('shows no more than there is, never goes back, and ends', () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(2000), { maxLength: 4 }),
      fc.double({ min: 0.01, max: 0.1, noNaN: true }),
      (lengths, seconds) => {
        let shown = lengths.map(() => 0)
        let within = true
        for (let time = 0; time < 10; time += seconds) {
          const before = shown
          shown = advance(
            lengths.map((there, i) => ({ there, shown: before[i] })),
            seconds,
          )
          within &&= shown.every((each, i) => each >= before[i] && each <= lengths[i])
        }
        expect({ within, shown }).toEqual({ within: true, shown: lengths })
      },
    ),
  )
})

it('shows all at once to whoever wants no motion', () => {
  expect(advance([{ shown: 0, there: 90 }], Number.POSITIVE_INFINITY)).toEqual([90])
})
