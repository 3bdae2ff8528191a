/**
 * Decides whether a reply's final answer equals the gold, as mathematics. Touches nothing but its two arguments.
 *
 * Plain numbers are compared digit by digit (the fast path). Anything else is parsed (expression.ts), in each way that
 * it may be read, and compared: first as written, so that one text in two faces is equal whatever it says; then by
 * kind, numbers exactly, expressions by their values at fixed sample points (two analytic expressions that agree at
 * eight generic points are equal, in practice), collections item by item. Text is at most LONGEST_EXPRESSION long and
 * no step searches or simplifies, so the time is bounded, whatever the reply holds.
 */
import { random } from '../random.ts'
import { readAnswer } from './answer.ts'
import { plainCharacters } from './characters.ts'
import { approximateValue, type Complex, children, exactValue, variables } from './evaluate.ts'
import { type Expression, LONGEST_EXPRESSION, parseExpression } from './expression.ts'
import { compare, magnitude, multiply, subtract } from './rational.ts'
import { asUnion, type RelationExpression, solutions } from './sets.ts'

/** True when the reply states a final answer and it equals `gold`. Never throws; false for a reply without one. */
export function mathEqual(reply: string, gold: string): boolean {
  const answer = readAnswer(reply)
  return answer !== null && answersEqual(answer, gold)
}

/** True when two answers, as `readAnswer` gives them or as a gold is written, are equal. Never throws. */
export function answersEqual(answer: string, gold: string): boolean {
  const given = answer.trim()
  const wanted = gold.trim()
  if (given === '' || wanted === '') return false
  if (given.length > LONGEST_EXPRESSION || wanted.length > LONGEST_EXPRESSION) return false
  if (given === wanted) return true
  const [a, g] = [plainNumber(given), plainNumber(wanted)]
  if (a !== null && g !== null && (a === g || !(a.includes('.') || g.includes('.')))) return a === g
  const [choice, goldChoice] = [readChoice(given), readChoice(wanted)]
  if (choice !== null && goldChoice !== null) return choice.letter === goldChoice.letter
  if (choice !== null) return answersEqual(choice.letter, wanted) || answersEqual(choice.text, wanted)
  if (goldChoice !== null)
    return answersEqual(given, goldChoice.letter) || answersEqual(given, goldChoice.text)
  const readings = readingsOf(given)
  const golds = readingsOf(wanted)
  if (readings.length === 0 || golds.length === 0) return plainText(given) === plainText(wanted)
  return readings.some((reading) => golds.some((read) => equal(reading, read)))
}

const FACE = /\\(?:text|math)[a-z]{0,6} ?\{([^{}]*)\}/g
const CHOICE =
  /^((?:[ ${]|\\[([]|\\(?:boxed|fbox|displaystyle)(?![a-z]))*)(?:\(([A-J])\)|([A-J])[.):](?=[ \\~]))(?:[ ~]|\\[ ,;:]|\\q?quad(?![a-z]))*(?=[\w\\$.-])(?!(?:and|or)\b)(.+)$/s
/** An option by its letter alone, and named as one. */
const NAMED_OPTION = /^[ $]*(?:[Oo]ption|[Cc]hoice|[Aa]nswer):? *\(?([A-J])\)?[ $.]*$/

/** An option's letter in brackets with what the option says, `\textbf{(B)}\ 12`, `B. 12`; null for anything else. */
function readChoice(text: string): { letter: string; text: string } | null {
  const plain = plainCharacters(text).replace(FACE, '$1')
  const named = NAMED_OPTION.exec(plain)?.[1]
  if (named !== undefined) return { letter: named, text: named }
  const found = CHOICE.exec(plain)
  if (!found || /\([A-J]\)/.test(found[4])) return null
  // What was opened before the letter is closed after the text.
  let said = found[4]
  for (const _ of found[1].matchAll(/\{/g)) said = said.replace(/\}(?:[ $.]|\\[)\]])*$/, '')
  return { letter: found[2] ?? found[3], text: said }
}

const PLAIN = /^(?:\\?[$€£₹])?\s?([-+\u2212]?)\s?(?:\\?[$€£₹])?\s?(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d*))?\s?\$?$/

/** A plain decimal number in its one shortest form, or null: `$1,234.50` is 1234.5. */
function plainNumber(text: string): string | null {
  const match = PLAIN.exec(text)
  if (!match) return null
  const whole = match[2].replaceAll(',', '').replace(/^0+(?=\d)/, '')
  const fraction = (match[3] ?? '').replace(/0+$/, '')
  const digits = fraction === '' ? whole : `${whole}.${fraction}`
  return (match[1] === '-' || match[1] === '\u2212') && digits !== '0' ? `-${digits}` : digits
}

/** What a text may mean: 1,234 is one number or a list of two, and `2 abc` has a unit or three variables. */
function readingsOf(text: string): Expression[] {
  // A list does not write a number with zeros before it: 10,000 is one number.
  const lists = /,/.test(text) && !/\d(?:,|\{,\}) ?(?:\\! ?)?0\d\d(?!\d)/.test(text) ? [true, false] : [true]
  const letters = /[\d})] ?[A-Za-z]{3}/.test(text) ? [false, true] : [false]
  return lists
    .flatMap((thousands) => letters.map((variables) => parseExpression(text, { thousands, variables })))
    .filter((reading) => reading !== null)
    .map(expandSigns)
}

/** Text that the grammar does not know, stripped of what only sets it. */
function plainText(text: string): string {
  return plainCharacters(text)
    .replace(
      /(\\\\)|\\(?:left|right|displaystyle|boxed|fbox)(?![a-zA-Z])|\\[()[\],;:! $]|[\s$~*]/g,
      (_, row) => row ?? '',
    )
    .replace(/\\(?:text[a-z]*|math[a-z]*|mbox|operatorname)\{([^{}]*)\}/g, '$1')
    .replace(/\\[dtc]frac/g, '\\frac')
    .replace(/\{([^{}\\])\}/g, '$1')
    .replace(/^\{(.*)\}$/, '$1')
    .replace(/[.,;:]{1,4}$/, '')
    .toLowerCase()
}

/* One expression written twice */

/** The same tree. True also where neither has a value, as `1/2004!` has none in doubles. */
function same(a: Expression, b: Expression): boolean {
  if (a.kind === 'number' && b.kind === 'number') return compare(a.value, b.value) === 0n
  const [parts, others] = [children(a), children(b)]
  return (
    label(a) === label(b) && parts.length === others.length && parts.every((part, i) => same(part, others[i]))
  )
}

/** All of a node but its parts. */
function label(e: Expression): string {
  const own =
    e.kind === 'matrix'
      ? e.rows.map((row) => row.length)
      : { ...e, args: 0, items: 0, sides: 0, parts: 0, bare: 0 }
  return e.kind === 'number' ? 'number' : JSON.stringify([e.kind, own])
}

/* Choice of sign */

/** `a \pm b` as the two values that it stands for. */
function expandSigns(e: Expression): Expression {
  if (!hasSign(e)) return e
  if (e.kind === 'list')
    return {
      ...e,
      items: e.items.flatMap((item) => (hasSign(item) ? [choose(item, 1), choose(item, -1)] : [item])),
    }
  return { kind: 'list', open: '', close: '', items: [choose(e, 1), choose(e, -1)] }
}

const hasSign = (e: Expression): boolean =>
  (e.kind === 'call' && (e.name === 'plusMinus' || e.name === 'minusPlus')) || children(e).some(hasSign)

function choose(e: Expression, sign: 1 | -1): Expression {
  if (e.kind === 'relation') return { ...e, sides: e.sides.map((side) => choose(side, sign)) }
  if (e.kind !== 'call') return e
  const args = e.args.map((arg) => choose(arg, sign))
  if (e.name !== 'plusMinus' && e.name !== 'minusPlus') return { ...e, args }
  const positive = (e.name === 'plusMinus') === (sign === 1)
  const second: Expression = positive ? args[1] : { kind: 'call', name: 'negate', args: [args[1]] }
  return { kind: 'call', name: 'add', args: [args[0], second] }
}

/* Equality by kind */

function equal(answer: Expression, gold: Expression): boolean {
  if (same(answer, gold)) return true
  const [a, g] = [scaledMatrix(asUnion(answer)), scaledMatrix(asUnion(gold))]
  if (a.kind === 'union' || g.kind === 'union') {
    const [x, y] = [asUnion(setOf(a)), asUnion(setOf(g))]
    return x.kind === 'union' && y.kind === 'union' && equalInAnyOrder(x.parts, y.parts)
  }
  if (a.kind === 'relation' || g.kind === 'relation') return equalRelations(a, g)
  if (a.kind === 'words' || g.kind === 'words') {
    const [x, y] = [wordsOf(a), wordsOf(g)]
    return x !== null && x === y
  }
  if (a.kind === 'time' || g.kind === 'time') return equalTimes(a, g)
  if (a.kind === 'list' || g.kind === 'list') return equalLists(a, g)
  if (a.kind === 'matrix' || g.kind === 'matrix')
    return (
      a.kind === 'matrix' &&
      g.kind === 'matrix' &&
      a.rows.length === g.rows.length &&
      a.rows.every((row, i) => equalInOrder(row, g.rows[i]))
    )
  if (a.kind === 'based' || g.kind === 'based') return equalDigits(a, g)
  if (a.kind === 'ratio' && g.kind === 'ratio') return equalRatios(a.parts, g.parts)
  return equalQuantities(a, g)
}

/** The set that `x \in S` names, or the expression itself. */
function setOf(e: Expression): Expression {
  return e.kind === 'relation' ? (solutions(e) ?? e) : e
}

/** What is said where nothing solves a problem. */
const NO_SOLUTION = /^no(?:real|such)?(?:solutions?|roots?|values?)$/

/** Words without their spaces; letters side by side count as a word, and the empty set says that there is nothing. */
function wordsOf(e: Expression): string | null {
  if (e.kind === 'words') {
    const text = e.text.replaceAll(' ', '')
    return NO_SOLUTION.test(text) ? 'nosolution' : text
  }
  if (e.kind === 'list') return e.open === '{' && e.items.length === 0 ? 'nosolution' : null
  if (e.kind === 'symbol') return e.name.toLowerCase()
  if (e.kind !== 'call' || e.name !== 'multiply') return null
  const letters = e.args.map(wordsOf)
  return letters.every((letter) => letter !== null) ? letters.join('') : null
}

/** Times by the clock of twelve hours, and by the half of the day where both say it. */
function equalTimes(a: Expression, g: Expression): boolean {
  if (a.kind === 'time' && g.kind === 'time') {
    const [half, other] = [a, g].map(({ hour, half }) => (hour > 12 ? 'pm' : hour === 0 ? 'am' : half))
    return a.hour % 12 === g.hour % 12 && a.minute === g.minute && (!half || !other || half === other)
  }
  const [time, other] = a.kind === 'time' ? [a, g] : [g, a]
  return time.kind === 'time' && time.bare !== null && equal(time.bare, other)
}

/** The same digits, in the same base where both name one. */
function equalDigits(a: Expression, g: Expression): boolean {
  const read = (e: Expression) =>
    e.kind === 'based' ? e : { digits: e.kind === 'number' ? (exactInteger(e) ?? '') : '', base: null }
  const [x, y] = [read(a), read(g)]
  return x.digits === y.digits && x.digits !== '' && (x.base === y.base || x.base === null || y.base === null)
}

const exactInteger = (e: Expression & { kind: 'number' }): string | null =>
  e.value.d === 1n ? e.value.n.toString() : null

/** In proportion; where a part is 0, as in 12:00, the same. */
function equalRatios(a: Expression[], g: Expression[]): boolean {
  const exact = [...a, ...g].map(exactValue)
  if (exact.some((part) => part === null || part.n === 0n)) return equalInOrder(a, g)
  const over = (parts: Expression[], i: number): Expression => ({
    kind: 'call',
    name: 'divide',
    args: [parts[i], parts[0]],
  })
  return a.length === g.length && a.every((_, i) => equalValues(over(a, i), over(g, i)))
}

/**
 * Values; where one alone has a `%`, `million` or degree sign, also without it: the question may have named that unit.
 * Of two that have one, both count: 25% is not 0.25%.
 */
function equalQuantities(a: Expression, g: Expression): boolean {
  if (equalValues(a, g)) return true
  const [x, y] = [withoutSign(a), withoutSign(g)]
  if ((x === null) === (y === null)) return false
  return equalValues(x ?? a, y ?? g)
}

/** A quantity without its `%`, `million` or degree sign, or null where it has none. */
function withoutSign(e: Expression): Expression | null {
  if (e.kind !== 'call') return null
  if (e.name === 'percent' || e.name === 'scaled' || e.name === 'degrees') return e.args[0]
  if (e.name !== 'negate') return null
  const bare = withoutSign(e.args[0])
  return bare && { ...e, args: [bare] }
}

/* Collections */

const equalInOrder = (a: readonly Expression[], g: readonly Expression[]): boolean =>
  a.length === g.length && a.every((item, i) => equal(item, g[i]))

/** As sets: each item of one is in the other, however often. */
function equalInAnyOrder(a: readonly Expression[], g: readonly Expression[]): boolean {
  const covers = a.every((item) => g.some((other) => equal(item, other)))
  return covers && g.every((item) => a.some((other) => equal(other, item)))
}

/**
 * A bare list and a set hold their items in any order, a tuple or an interval in its own. A gold that is a bare
 * list says nothing of brackets; a tuple may be answered without them. A bare list of one value in several forms is
 * that value.
 */
function equalLists(a: Expression, g: Expression): boolean {
  if (a.kind !== 'list' || g.kind !== 'list') {
    const [list, other] = a.kind === 'list' ? [a, g] : [g, a]
    if (list.kind !== 'list' || list.items.length === 0) return false
    if (list.items.length > 1 && list.open !== '') return false
    // Each with each: 50 and 0.5 may both stand for 50%, and are not one value.
    return list.items.every(
      (item, i) => equal(item, other) && list.items.slice(0, i).every((earlier) => equal(item, earlier)),
    )
  }
  if (g.open === '' || g.open === '{') return a.open === a.close && equalInAnyOrder(a.items, g.items)
  const bare = a.open === '' && g.open === '(' && g.close === '('
  return (bare || (a.open === g.open && a.close === g.close)) && equalInOrder(a.items, g.items)
}

/** A number times a matrix as the matrix that it is; anything else as it is. */
function scaledMatrix(e: Expression): Expression {
  if (e.kind !== 'call' || (e.name !== 'multiply' && e.name !== 'negate')) return e
  const at = e.args.findIndex((arg) => arg.kind === 'matrix')
  const matrix = e.args[at]
  if (matrix?.kind !== 'matrix') return e
  const scale = (entry: Expression): Expression => ({
    ...e,
    args: e.args.map((arg, i) => (i === at ? entry : arg)),
  })
  return { kind: 'matrix', rows: matrix.rows.map((row) => row.map(scale)) }
}

/* Relations */

const isEquation = (r: RelationExpression): boolean => r.operators.every((o) => o === '=' || o === '≈')

function equalRelations(answer: Expression, gold: Expression): boolean {
  if (answer.kind === 'relation' && gold.kind === 'relation') {
    if (isEquation(answer) !== isEquation(gold)) return false
    if (isEquation(gold)) return equalEquations(answer, gold)
    const [a, g] = [solutions(answer), solutions(gold)]
    if (a && g) return sameVariable(answer, gold) && equal(a, g)
    return equalInequalities(answer, gold)
  }
  if (answer.kind === 'relation') return statedValues(answer, gold).some((value) => equal(value, gold))
  // A number does not answer for an equation, only for a definition.
  if (gold.kind !== 'relation' || (isEquation(gold) && gold.operators[0] === '=' && !isName(gold.sides[0])))
    return false
  return statedValues(gold, answer).some((value) => equal(answer, value))
}

/** What an equation can define: a name, or a product, quotient, ratio, size or tuple of names (`AB`, `(p, q)`). */
function isName(e: Expression): boolean {
  if (e.kind === 'symbol' || e.kind === 'words') return true
  if (e.kind === 'call' && e.name !== 'multiply' && e.name !== 'divide' && e.name !== 'abs') return false
  return e.kind !== 'matrix' && e.kind !== 'relation' && children(e).length > 0 && children(e).every(isName)
}

const sameVariable = (a: Expression, g: Expression): boolean =>
  [...variables(a)].join() === [...variables(g)].join()

/**
 * What a relation says its subject is, to compare with something that is no relation: the last side of `x = 5` or
 * `9 * 2 = 18`, both sides of `2\pi \approx 6.28`, the set of `x \in S` or of an inequality.
 */
function statedValues(r: RelationExpression, other: Expression): Expression[] {
  if (!isEquation(r)) {
    const set = solutions(r)
    return set ? [set] : []
  }
  // `2x + y = 5` says nothing of an expression in x; of a number it may ("find 2x + y").
  // An identity is one value written twice.
  if (!isName(r.sides[0]) && variables(other).size > 0 && !isIdentity(r)) return []
  const last = r.operators.length
  const [left, right] = [r.sides[last - 1], r.sides[last]]
  if (r.operators[last - 1] === '=') return [right]
  // `\\pi` is a name too, and has a value.
  if (isNear(left, right)) return [left, right]
  return isName(left) ? [right] : []
}

/** Whether all sides of an equation are equal whatever their variables are. */
const isIdentity = ({ sides }: RelationExpression): boolean =>
  sides.every((side, i) => i === 0 || equalValues(side, sides[0]))

/** Whether two constants are within 1%: `\pi \approx 3.14`. */
function isNear(a: Expression, b: Expression): boolean {
  const none = new Map<string, number>()
  const [x, y] = [approximateValue(a, none), approximateValue(b, none)]
  return x.im === 0 && y.im === 0 && Math.abs(x.re - y.re) <= 0.01 * Math.abs(y.re)
}

/** Left side minus right side of a relation of two sides. */
const difference = (r: RelationExpression): Expression => ({
  kind: 'call',
  name: 'add',
  args: [r.sides[0], { kind: 'call', name: 'negate', args: [r.sides[r.sides.length - 1]] }],
})

/** Two definitions of one name by their values, any other two equations by their zero sets: F and cF. */
function equalEquations(a: RelationExpression, g: RelationExpression): boolean {
  if (isName(a.sides[0]) && isName(g.sides[0]) && equal(a.sides[0], g.sides[0]))
    return equal(a.sides[a.sides.length - 1], g.sides[g.sides.length - 1])
  const ratio = constantRatio(difference(a), difference(g))
  return ratio !== null
}

/** The same relation of F and of cF, c > 0, or the turned one, c < 0. */
function equalInequalities(a: RelationExpression, g: RelationExpression): boolean {
  if (a.operators.length !== 1 || g.operators.length !== 1) return false
  const ratio = constantRatio(difference(a), difference(g))
  if (ratio === null || Math.abs(ratio.im) > 1e-9) return false
  const turned = a.operators[0].replace(/[<>]/, (c) => (c === '<' ? '>' : '<'))
  return (ratio.re > 0 ? a.operators[0] : turned) === g.operators[0]
}

/* Values */

/** Variables are sampled at this many points, and this many of them must have values on both sides. */
const POINTS = 8
const ENOUGH = 4

/** The i-th point, for an expression that is to be compared: fixed values of its variables. */
function point(names: Iterable<string>, i: number, integers: boolean): Map<string, number> {
  const values = new Map<string, number>()
  for (const name of names) {
    const stream = random('math-equal', name, i)
    // Away from 0 and of both signs; small integers for factorials, which have values nowhere else.
    const generic = (stream.next() < 0.3 ? -1 : 1) * (0.3 + 1.9 * stream.next())
    values.set(name, integers ? i + stream.int(4) : generic)
  }
  return values
}

const hasFactorial = (e: Expression): boolean =>
  (e.kind === 'call' && e.name === 'factorial') || children(e).some(hasFactorial)

const isDefined = (z: Complex): boolean => Number.isFinite(z.re) && Number.isFinite(z.im)

/** Written with a decimal point somewhere, so perhaps rounded. */
const isRounded = (e: Expression): boolean =>
  (e.kind === 'number' && e.rounded) || children(e).some(isRounded)

/** A rounded number equals a value within half a unit of the sixth decimal and within 1e-5 of its size. */
const ROUNDED = { absolute: { n: 5n, d: 10_000_000n }, relative: { n: 1n, d: 100_000n } }

function equalValues(a: Expression, g: Expression): boolean {
  const [x, y] = [exactValue(a), exactValue(g)]
  const rounded = isRounded(a) || isRounded(g)
  if (x && y) {
    if (compare(x, y) === 0n) return true
    const off = subtract(x, y)
    const larger = compare(magnitude(x), magnitude(y)) > 0n ? x : y
    const near = multiply(magnitude(larger), ROUNDED.relative)
    if (!rounded || !off || !near) return false
    const size = magnitude(off)
    return compare(size, ROUNDED.absolute) <= 0n && compare(size, near) <= 0n
  }
  const [infiniteA, infiniteG] = [infinityOf(a), infinityOf(g)]
  if (infiniteA !== 0 || infiniteG !== 0) return infiniteA === infiniteG
  const names = variables(g, variables(a))
  const integers = hasFactorial(a) || hasFactorial(g)
  let compared = 0
  for (let i = 0; i < (names.size === 0 ? 1 : POINTS); i++) {
    const at = point(names, i, integers)
    const [u, v] = [approximateValue(a, at), approximateValue(g, at)]
    if (!isDefined(u) || !isDefined(v)) continue
    if (!near(u, v, rounded)) return false
    compared++
  }
  return compared >= (names.size === 0 ? 1 : ENOUGH)
}

/** 1 or -1 for plus and minus infinity, else 0. */
function infinityOf(e: Expression): number {
  if (e.kind === 'symbol') return e.name === 'infinity' ? 1 : 0
  return e.kind === 'call' && e.name === 'negate' ? -infinityOf(e.args[0]) || 0 : 0
}

function near(u: Complex, v: Complex, rounded: boolean): boolean {
  const off = Math.hypot(u.re - v.re, u.im - v.im)
  const size = Math.max(Math.hypot(u.re, u.im), Math.hypot(v.re, v.im))
  return off <= 1e-9 * size || off <= 1e-12 || (rounded && off <= 5e-7 && off <= 1e-5 * size)
}

/** c where a = c g at every sampled point, c not 0; else null. */
function constantRatio(a: Expression, g: Expression): Complex | null {
  const names = variables(g, variables(a))
  if (names.size === 0) return null
  let ratio: Complex | null = null
  const integers = hasFactorial(a) || hasFactorial(g)
  let compared = 0
  for (let i = 0; i < POINTS; i++) {
    const at = point(names, i, integers)
    const [u, v] = [approximateValue(a, at), approximateValue(g, at)]
    const size = v.re * v.re + v.im * v.im
    if (!isDefined(u) || !isDefined(v) || size < 1e-12) continue
    const here = { re: (u.re * v.re + u.im * v.im) / size, im: (u.im * v.re - u.re * v.im) / size }
    if (Math.hypot(here.re, here.im) < 1e-12 || (ratio !== null && !near(here, ratio, false))) return null
    ratio = here
    compared++
  }
  return compared >= ENOUGH ? ratio : null
}
