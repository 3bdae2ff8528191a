/** Sets of real numbers in one form, whichever way they are written: intervals and their unions. Pure. */
import { approximateValue, variables } from './evaluate.ts'
import type { Expression } from './expression.ts'

export type RelationExpression = Expression & { kind: 'relation' }

const INFINITY: Expression = { kind: 'symbol', name: 'infinity' }
const MINUS_INFINITY: Expression = { kind: 'call', name: 'negate', args: [INFINITY] }

const interval = (lower: Expression, upper: Expression, lowerOpen = true, upperOpen = true): Expression => ({
  kind: 'list',
  open: lowerOpen ? '(' : '[',
  close: upperOpen ? '(' : '[',
  items: [lower, upper],
})

const isReals = (e: Expression): boolean => e.kind === 'symbol' && e.name === 'ℝ'

const saysReal = (e: Expression): boolean =>
  e.kind === 'relation' && e.operators.length === 1 && e.operators[0] === 'in' && isReals(e.sides[1])

/**
 * The real numbers, `x < 1 or x > 2` (a bare list of inequalities), `x \neq 2` and `\mathbb{R} \setminus \{2\}` as
 * intervals or a union of them; anything else as it is.
 */
export function asUnion(e: Expression): Expression {
  if (isReals(e)) return interval(MINUS_INFINITY, INFINITY)
  const holes = missingPoints(e)
  if (holes !== null) return punctured(holes)
  if (e.kind !== 'list' || e.open !== '' || e.items.length < 2) return e
  const parts: Expression[] = []
  for (const item of e.items) {
    const set = item.kind === 'relation' && item.operators[0] !== 'in' ? solutions(item) : null
    if (set === null) return e
    parts.push(set)
  }
  return both(parts) ?? { kind: 'union', parts }
}

/** `x > 1, x < 2`: where either holds everywhere, that both hold is meant; null for any other two sets. */
function both(parts: readonly Expression[]): Expression | null {
  const intervals = parts.filter((part) => part.kind === 'list')
  const above = intervals.find(({ items }) => items[1] === INFINITY)
  const below = intervals.find(({ items }) => items[0] === MINUS_INFINITY)
  if (parts.length !== 2 || !above || !below) return null
  const [lower, upper] = [above.items[0], below.items[1]]
  if (!(constant(lower) < constant(upper))) return null
  return { kind: 'list', open: above.open, close: below.close, items: [lower, upper] }
}

/** The points that a set names as missing from the real numbers; null where it is no such set. */
function missingPoints(e: Expression): Expression[] | null {
  if (e.kind === 'relation' && e.operators.length === 1 && e.operators[0] === '!=')
    return e.sides[0].kind === 'symbol' && variables(e.sides[0]).size === 1 ? pointsOf(e.sides[1]) : null
  if (e.kind === 'call' && e.name === 'add' && isReals(e.args[0])) {
    const [, removed] = e.args
    return removed.kind === 'call' && removed.name === 'negate' ? pointsOf(removed.args[0]) : null
  }
  if (e.kind !== 'list' || e.open !== '') return null
  // `x \neq 1, x \neq 2`, `x \neq 1, 2`, `x \in \mathbb{R}, x \neq 1`
  const [head, ...others] = e.items.filter((item) => !saysReal(item))
  const first = head === undefined ? null : missingPoints(head)
  if (first === null) return null
  const rest = others.map((item) => (item.kind === 'relation' ? missingPoints(item) : pointsOf(item)))
  return rest.some((points) => points === null) ? null : [...first, ...rest.flatMap((points) => points ?? [])]
}

/** The real constants that `e` is or lists, or null. */
function pointsOf(e: Expression): Expression[] | null {
  const points = e.kind === 'list' && (e.open === '{' || e.open === '') ? e.items : [e]
  return points.every((point) => Number.isFinite(constant(point))) ? points : null
}

/** The value of a real constant; NaN for anything else. */
function constant(e: Expression): number {
  const { re, im } = approximateValue(e, new Map())
  return im === 0 ? re : Number.NaN
}

/** The real numbers without some, as a union. */
function punctured(points: Expression[]): Expression {
  const holes = points.toSorted((a, b) => constant(a) - constant(b))
  const distinct = holes.filter((hole, i) => i === 0 || constant(hole) !== constant(holes[i - 1]))
  const ends = [MINUS_INFINITY, ...distinct, INFINITY]
  return { kind: 'union', parts: ends.slice(1).map((end, i) => interval(ends[i], end)) }
}

/** The set of an inequality in one variable (an interval), or of `x \in S`; null where it is neither. */
export function solutions(r: RelationExpression): Expression | null {
  const { operators, sides } = r
  if (operators.length === 1 && operators[0] === 'in') return sides[0].kind === 'symbol' ? sides[1] : null
  const holes = missingPoints(r)
  if (holes !== null) return punctured(holes)
  if (!operators.every((o) => /^[<>]=?$/.test(o))) return null
  const at = sides.findIndex((side) => side.kind === 'symbol' && variables(side).size === 1)
  const rest = sides.filter((_, i) => i !== at)
  if (at < 0 || sides.length > 3 || rest.some((side) => variables(side).size > 0)) return null
  if (sides.length === 3 && (at !== 1 || operators[0][0] !== operators[1][0])) return null
  const ascending = operators[0].startsWith('<')
  if (sides.length === 3) {
    const [first, second] = operators.map((o) => o.length === 1)
    return ascending ? interval(rest[0], rest[1], first, second) : interval(rest[1], rest[0], second, first)
  }
  const open = operators[0].length === 1
  return ascending === (at === 0)
    ? interval(MINUS_INFINITY, rest[0], true, open)
    : interval(rest[0], INFINITY, open, true)
}
