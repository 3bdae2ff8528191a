import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  add,
  compare,
  decimal,
  divide,
  floor,
  integer,
  multiply,
  power,
  rational,
  root,
  subtract,
  toNumber,
} from './rational.ts'

const fractions = fc
  .tuple(fc.bigInt(-(10n ** 12n), 10n ** 12n), fc.bigInt(1n, 10n ** 9n))
  .map(([n, d]) => rational(n, d)!)

test('sums, products and their inverses agree with each other', () => {
  fc.assert(
    fc.property(fractions, fractions, (a, b) => {
      expect(compare(subtract(add(a, b)!, b)!, a)).toBe(0n)
      if (b.n !== 0n) expect(compare(divide(multiply(a, b)!, b)!, a)).toBe(0n)
    }),
  )
})

test('floor is the integer at or below', () => {
  fc.assert(
    fc.property(fractions, (a) => {
      const below = { n: floor(a), d: 1n }
      expect(compare(below, a) <= 0n && compare(add(below, { n: 1n, d: 1n })!, a) > 0n).toBe(true)
    }),
  )
})

test('a root undoes a power, and is null where it is irrational', () => {
  fc.assert(
    fc.property(fractions, fc.bigInt(2n, 7n), (a, k) => {
      const powered = power(a, k)!
      const back = root(powered, k)!
      expect(compare(power(back, k)!, powered)).toBe(0n)
      expect(
        compare(power(power(a, -k) ?? a, 1n)!, a.n === 0n ? a : divide({ n: 1n, d: 1n }, powered)!),
      ).toBe(0n)
    }),
  )
  expect(root({ n: 2n, d: 1n }, 2n)).toBeNull()
  expect(root({ n: -4n, d: 1n }, 2n)).toBeNull()
})

test.each([
  ['12.50', 25n, 2n],
  ['.5', 1n, 2n],
  ['007', 7n, 1n],
])('decimal %s', (digits, n, d) => expect(compare(decimal(digits)!, { n, d })).toBe(0n))

test('what is too large or undefined is null', () => {
  expect(power({ n: 9n, d: 1n }, 9n ** 9n)).toBeNull()
  expect(decimal('1', 1_000_000)).toBeNull()
  expect(rational(1n, 0n)).toBeNull()
  expect(power({ n: 0n, d: 1n }, -1n)).toBeNull()
  expect(integer({ n: 1n, d: 2n })).toBeNull()
})

test('the nearest double, beyond the range of doubles too', () => {
  expect(toNumber({ n: 10n ** 400n, d: 10n ** 399n })).toBeCloseTo(10, 10)
  expect(toNumber({ n: -1n, d: 3n })).toBeCloseTo(-1 / 3, 15)
})
