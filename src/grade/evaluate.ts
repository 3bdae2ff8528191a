/**
 * The value of an expression: exactly, as a fraction, where it is one; else in complex doubles at given values of
 * its variables. Pure, and bounded in time: a value too large to hold is null or not finite.
 */
import type { Expression, Operation } from './expression.ts'
import type { Rational } from './rational.ts'
import * as exactly from './rational.ts'

/** Factorials and binomials of more than this are not computed: in doubles, and as fractions. */
const LARGEST_FACTORIAL = 170
const LARGEST_EXACT = 500n

/** The exact value, or null where the expression has variables, is irrational or is too large. */
export function exactValue(e: Expression): Rational | null {
  if (e.kind === 'number') return e.value
  if (e.kind === 'ratio' && e.parts.length === 2) return combine('divide', e.parts.map(exactValue))
  return e.kind === 'call' ? combine(e.name, e.args.map(exactValue)) : null
}

function combine(name: Operation, args: (Rational | null)[]): Rational | null {
  const [a, b] = args
  if (!a || (args.length > 1 && !b)) return null
  if (name === 'negate') return exactly.negate(a)
  if (name === 'abs') return exactly.magnitude(a)
  if (name === 'percent') return exactly.divide(a, { n: 100n, d: 1n })
  if (name === 'floor') return { n: exactly.floor(a), d: 1n }
  if (name === 'ceil') return { n: -exactly.floor(exactly.negate(a)), d: 1n }
  if (name === 'factorial') return choose(exactly.integer(a), null)
  if (!b) return null
  if (name === 'add') return exactly.add(a, b)
  if (name === 'multiply' || name === 'scaled') return exactly.multiply(a, b)
  if (name === 'divide') return exactly.divide(a, b)
  if (name === 'binomial') return choose(exactly.integer(a), exactly.integer(b))
  if (name === 'root') {
    const index = exactly.integer(b)
    return index === null ? null : exactly.root(a, index)
  }
  if (name === 'power') {
    const whole = exactly.integer(b)
    if (whole !== null) return exactly.power(a, whole)
    // 8^(2/3): the root first, which keeps the numbers small. Of a negative base it has no one meaning.
    const base = a.n < 0n ? null : exactly.root(a, b.d)
    return base && exactly.power(base, b.n)
  }
  return null
}

/** n! for k null, else n over k. */
function choose(n: bigint | null, k: bigint | null): Rational | null {
  if (n === null || n < 0n || n > LARGEST_EXACT || (k !== null && (k < 0n || k > n))) return null
  let result = 1n
  for (let i = 1n; i <= (k ?? n); i++) result = k === null ? result * i : (result * (n - k + i)) / i
  return { n: result, d: 1n }
}

/** A complex number. */
export interface Complex {
  re: number
  im: number
}

const NOT_A_NUMBER: Complex = { re: Number.NaN, im: Number.NaN }
const CONSTANTS = new Map<string, Complex>([
  ['pi', { re: Math.PI, im: 0 }],
  ['e', { re: Math.E, im: 0 }],
  ['i', { re: 0, im: 1 }],
  ['infinity', { re: Number.POSITIVE_INFINITY, im: 0 }],
])

/** The names of the variables in an expression, added to `found`. */
export function variables(e: Expression, found: Set<string> = new Set()): Set<string> {
  if (e.kind === 'symbol' && !CONSTANTS.has(e.name)) found.add(e.name)
  for (const part of children(e)) variables(part, found)
  return found
}

/** The direct parts of an expression. */
export function children(e: Expression): readonly Expression[] {
  if (e.kind === 'call') return e.args
  if (e.kind === 'list') return e.items
  if (e.kind === 'relation') return e.sides
  if (e.kind === 'union' || e.kind === 'ratio') return e.parts
  return e.kind === 'matrix' ? e.rows.flat() : []
}

const add = (a: Complex, b: Complex): Complex => ({ re: a.re + b.re, im: a.im + b.im })
/** Without a negative zero: that would be the other side of a branch cut, -i for the root of -1. */
const negate = (a: Complex): Complex => ({ re: 0 - a.re, im: 0 - a.im })
const scale = (a: Complex, by: number): Complex => ({ re: a.re * by, im: a.im * by })
const real = (re: number): Complex => ({ re, im: 0 })

function multiply(a: Complex, b: Complex): Complex {
  // Real operands are kept apart, so that infinities and overflow do not turn into NaN through 0 * infinity.
  if (a.im === 0 && b.im === 0) return real(a.re * b.re)
  return { re: a.re * b.re - a.im * b.im, im: a.re * b.im + a.im * b.re }
}

function divide(a: Complex, b: Complex): Complex {
  if (b.re === 0 && b.im === 0) return NOT_A_NUMBER
  if (a.im === 0 && b.im === 0) return real(a.re / b.re)
  const size = b.re * b.re + b.im * b.im
  return { re: (a.re * b.re + a.im * b.im) / size, im: (a.im * b.re - a.re * b.im) / size }
}

/** A negative real number that carries an imaginary rounding error lies on the branch cut, not beside it. */
const logarithm = (a: Complex): Complex =>
  a.re === 0 && a.im === 0
    ? NOT_A_NUMBER
    : {
        re: Math.log(Math.hypot(a.re, a.im)),
        im: Math.abs(a.im) <= 1e-14 * -a.re ? Math.PI : Math.atan2(a.im, a.re),
      }

function exponential(a: Complex): Complex {
  const size = Math.exp(a.re)
  return a.im === 0 ? real(size) : { re: size * Math.cos(a.im), im: size * Math.sin(a.im) }
}

/** Principal value; an infinite base has none, though its 0th power would be 1 in doubles. */
function power(base: Complex, exponent: Complex): Complex {
  if (!Number.isFinite(base.re)) return NOT_A_NUMBER
  if (base.im === 0 && exponent.im === 0) {
    const value = base.re ** exponent.re
    if (!Number.isNaN(value)) return real(value)
  }
  if (base.re === 0 && base.im === 0) return exponent.re > 0 ? real(0) : NOT_A_NUMBER
  return exponential(multiply(logarithm(base), exponent))
}

/** The k-th root: real where the radicand is real and the index odd, else the principal value. */
function root(radicand: Complex, index: Complex): Complex {
  const k = index.re
  if (radicand.im === 0 && index.im === 0) {
    if (radicand.re >= 0 && k === 2) return real(Math.sqrt(radicand.re))
    if (radicand.re < 0 && Number.isInteger(k) && k % 2 !== 0) return real(-((-radicand.re) ** (1 / k)))
  }
  return power(radicand, divide(real(1), index))
}

function sine(a: Complex): Complex {
  return { re: Math.sin(a.re) * Math.cosh(a.im), im: Math.cos(a.re) * Math.sinh(a.im) }
}
const cosine = (a: Complex): Complex => sine(add(real(Math.PI / 2), negate(a)))
const hyperbolicSine = (a: Complex): Complex =>
  scale(add(exponential(a), negate(exponential(negate(a)))), 0.5)
const hyperbolicCosine = (a: Complex): Complex => scale(add(exponential(a), exponential(negate(a))), 0.5)

/** Functions of a real argument alone: NaN off the real line. */
const onReals =
  (f: (x: number) => number) =>
  (a: Complex): Complex =>
    Math.abs(a.im) < 1e-12 ? real(f(a.re)) : NOT_A_NUMBER

/** Doubles carry a little error: a value this close to an integer is taken as it. */
const snap = (x: number): number => (Math.abs(x - Math.round(x)) < 1e-9 ? Math.round(x) : x)

const factorial = (n: number): number => {
  if (!Number.isInteger(n) || n < 0 || n > LARGEST_FACTORIAL) return Number.NaN
  let product = 1
  for (let i = 2; i <= n; i++) product *= i
  return product
}

/** n (n - 1) ... (n - k + 1). */
function fallingFactorial(n: Complex, k: number): Complex {
  let product = real(k > LARGEST_FACTORIAL || !Number.isFinite(n.re) ? Number.NaN : 1)
  for (let i = 0; i < Math.min(k, LARGEST_FACTORIAL); i++) product = multiply(product, add(n, real(-i)))
  return product
}

const OPERATIONS: Record<
  Exclude<Operation, 'plusMinus' | 'minusPlus'>,
  (a: Complex, b: Complex) => Complex
> = {
  add,
  multiply,
  divide,
  negate,
  power,
  root,
  log: (a, base) => divide(logarithm(a), logarithm(base)),
  abs: (a) => real(Math.hypot(a.re, a.im)),
  floor: onReals((x) => Math.floor(snap(x))),
  ceil: onReals((x) => Math.ceil(snap(x))),
  factorial: onReals((x) => factorial(snap(x))),
  binomial: (n, k) =>
    Math.abs(k.im) < 1e-12
      ? divide(fallingFactorial(n, snap(k.re)), real(factorial(snap(k.re))))
      : NOT_A_NUMBER,
  percent: (a) => scale(a, 0.01),
  degrees: (a) => scale(a, Math.PI / 180),
  scaled: multiply,
  sin: sine,
  cos: cosine,
  tan: (a) => divide(sine(a), cosine(a)),
  cot: (a) => divide(cosine(a), sine(a)),
  sec: (a) => divide(real(1), cosine(a)),
  csc: (a) => divide(real(1), sine(a)),
  arcsin: onReals(Math.asin),
  arccos: onReals(Math.acos),
  arctan: onReals(Math.atan),
  sinh: hyperbolicSine,
  cosh: hyperbolicCosine,
  tanh: (a) => divide(hyperbolicSine(a), hyperbolicCosine(a)),
  exp: exponential,
}

/** A fractional exponent of odd denominator, as a root and a power: of a negative number it is real, like the root. */
function oddRoot(exponent: Expression): { index: number; power: number } | null {
  if (exponent.kind === 'number' || exponent.kind === 'symbol') return null
  const value = exactValue(exponent)
  const reduced = value && exactly.reduce(value)
  if (!reduced || reduced.d === 1n || reduced.d % 2n === 0n) return null
  return { index: Number(reduced.d), power: Number(reduced.n) }
}

/** The value in complex doubles with variables as `at` gives them; NaN where there is none (a list, a pole). */
export function approximateValue(e: Expression, at: ReadonlyMap<string, number>): Complex {
  if (e.kind === 'number') return real(exactly.toNumber(e.value))
  if (e.kind === 'symbol') return CONSTANTS.get(e.name) ?? real(at.get(e.name) ?? Number.NaN)
  if (e.kind === 'ratio' && e.parts.length === 2)
    return divide(approximateValue(e.parts[0], at), approximateValue(e.parts[1], at))
  if (e.kind !== 'call' || e.name === 'plusMinus' || e.name === 'minusPlus') return NOT_A_NUMBER
  if (e.name === 'power') {
    const odd = oddRoot(e.args[1])
    if (odd !== null) {
      const base = approximateValue(e.args[0], at)
      if (Number.isNaN(base.re)) return NOT_A_NUMBER
      return power(root(base, real(odd.index)), real(odd.power))
    }
  }
  const args = e.args.map((arg) => approximateValue(arg, at))
  // No operation makes a value of what has none: not 0 times it, nor its 0th power.
  if (args.some((arg) => Number.isNaN(arg.re) || Number.isNaN(arg.im))) return NOT_A_NUMBER
  const [a, b = real(0)] = args
  return OPERATIONS[e.name](a, b)
}
