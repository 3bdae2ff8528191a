/**
 * Chat templates: the part of Jinja that transformers renders a chat with, within bounds. Touches nothing.
 *
 * A template is a program that came with a model. What it may take is stated here and counted while it runs, so that a
 * loop over a billion numbers is refused in a moment instead of taking the machine with it.
 */
import * as library from '@huggingface/jinja'
import { UserError } from '../errors.ts'

// What is used of the library; its own declarations do not resolve under Node's module rules.
interface Scope {
  set(name: string, value: unknown): void
}
/** A text, a number, a list, a map, a function, or nothing. */
interface Value {
  value: unknown
}
const Environment = library.Environment as unknown as new () => Scope
const Interpreter = library.Interpreter as unknown as new (
  scope: Scope,
) => { run(program: unknown): Value; evaluate(statement: unknown, scope: Scope): Value | undefined }

/** Whatever JSON holds: what a template can be given. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json }

/** What a template is given beside the chat, such as `enable_thinking: false` for Qwen3. */
export type TemplateArguments = Readonly<Record<string, Json>>

export interface ChatTemplate {
  /**
   * @throws UserError where the template refuses the chat, in its own words; where it needs what the renderer lacks; and
   * where it takes more than it may.
   */
  render(variables: Readonly<Record<string, unknown>>): string
}

/** Characters of a template's source. */
const LONGEST_SOURCE = 1 << 18
/** White space in a row in it: the lexer's pattern takes the square of that. */
const LONGEST_BLANK = 4096
/** Steps of one rendering, about a second's: nodes evaluated, elements of lists and maps, and 64 characters of text. */
const MOST_STEPS = 500_000
/** Characters of a text, elements of a list, that a step may give. */
const LONGEST_VALUE = 1 << 20

/** What `strftime_now` says, which transformers answers with today: a run must not depend on its day. */
const fixedDate = '26 Jul 2024' // Llama 3's templates fall back on this one

/** Jinja's statements, filters and tests that the renderer lacks or knows for some types alone. */
const jinjaStatements = new Set(
  'autoescape block debug do extends from import include pluralize raw trans with'.split(' '),
)
const jinjaFilters = new Set(
  (
    'abs attr batch capitalize center count d default dictsort e escape filesizeformat first float forceescape format ' +
    'groupby indent int items join last length list lower map max min pprint random reject rejectattr replace reverse ' +
    'round safe select selectattr slice sort string striptags sum title tojson trim truncate unique upper urlencode ' +
    'urlize wordcount wordwrap xmlattr'
  ).split(' '),
)
const jinjaTests = new Set(
  (
    'boolean callable defined divisibleby eq equalto escaped even false filter float ge greaterthan gt in integer ' +
    'iterable le lessthan lower lt mapping mapped ne none number odd sameas sequence string test true undefined upper'
  ).split(' '),
)

/** Names that a template finds whatever it is given. */
const taken = new Set('messages add_generation_prompt namespace'.split(' '))

/** @throws UserError for a name that is no variable's, or that the chat or the language itself gives a meaning. */
export function checkArguments(given: TemplateArguments): void {
  for (const name of Object.keys(given)) {
    const isFree = name === 'tools' || name === 'documents' || !Object.hasOwn(globals, name)
    if (!/^[A-Za-z_]\w*$/.test(name) || taken.has(name) || !isFree) {
      throw new UserError(
        `"${name}" cannot be an argument of a chat template. Give one that the template asks for, such as enable_thinking.`,
      )
    }
  }
}

/** Thrown while a template runs: what it said itself, and what it took too much of. */
class Refusal extends Error {}
class Excess extends Error {}

/**
 * Reads a template. `where` names it in errors.
 *
 * @throws UserError for a template that is broken, that is valid Jinja and not supported here, or that is too long.
 */
export function openTemplate(source: string, where: string): ChatTemplate {
  if (source.length > LONGEST_SOURCE) {
    throw new UserError(
      `The chat template in ${where} has ${source.length} characters, more than ${LONGEST_SOURCE}. Use another model.`,
    )
  }
  if (new RegExp(`\\s{${LONGEST_BLANK + 1}}`).test(source)) {
    throw new UserError(
      `The chat template in ${where} has more than ${LONGEST_BLANK} blanks in a row. Take them out of it.`,
    )
  }
  const { parsed } = parse(source, where)
  return {
    render(variables) {
      const environment = new Environment()
      for (const [name, value] of Object.entries({ ...globals, ...variables })) environment.set(name, value)
      try {
        const { value } = new ChatInterpreter(environment).run(parsed)
        return String(value)
      } catch (error) {
        throw unrendered(error as Error, where)
      }
    },
  }
}

function parse(source: string, where: string): library.Template {
  try {
    return new library.Template(source)
  } catch (error) {
    const { message } = error as Error
    const statement = /^Unknown statement type: (.+)$/.exec(message)?.[1]
    if (statement !== undefined && jinjaStatements.has(statement)) {
      throw unsupported(`the statement '${statement}'`, where)
    }
    // The parser runs past its last token.
    const isCut = error instanceof TypeError || /end of (input|comment)/.test(message)
    if (isCut) {
      throw new UserError(
        `The chat template in ${where} is broken: it ends within a statement, a block or a text. Get the file anew.`,
      )
    }
    throw new UserError(
      `The chat template in ${where} cannot be read (${shortened(message)}): it is broken, or valid Jinja of a kind that is ` +
        'not supported here. Use another model, or put a chat_template.jinja of your own there.',
    )
  }
}

function unsupported(what: string, where: string): UserError {
  return new UserError(
    `The chat template in ${where} uses ${what}, which is valid Jinja and not supported here. Use another model, or put a ` +
      'chat_template.jinja that does without it there.',
  )
}

function unrendered(error: Error, where: string): UserError {
  const { message } = error
  if (error instanceof Refusal) {
    // Templates refuse chats on purpose, a system message for instance: their message says what they want.
    return new UserError(
      `The chat template in ${where} refuses this chat (${shortened(message)}). Use another model or other messages.`,
    )
  }
  if (error instanceof Excess || error instanceof RangeError) {
    const why = error instanceof Excess ? message : 'its calls or its texts have no end'
    return new UserError(`The chat template in ${where} takes more than it may: ${why}. Use another model.`)
  }
  const filter = /(?:Unknown \w+ filter: |Cannot apply filter ")(\w+)/.exec(message)?.[1]
  if (filter !== undefined && jinjaFilters.has(filter)) return unsupported(`the filter '${filter}'`, where)
  const test = /^Unknown test: (\w+)$/.exec(message)?.[1]
  if (test !== undefined && jinjaTests.has(test)) return unsupported(`the test '${test}'`, where)
  if (/not currently supported|^Cannot call something that is not a function/.test(message)) {
    return new UserError(
      `The chat template in ${where} cannot be rendered (${shortened(message)}): it calls what is not supported here, though ` +
        'it may be valid Jinja. Use another model, or put a chat_template.jinja that does without it there.',
    )
  }
  return new UserError(
    `The chat template in ${where} fails on this chat (${shortened(message)}). Use another model, or put a ` +
      'chat_template.jinja of your own there.',
  )
}

const shortened = (text: string) => (text.length > 200 ? `${text.slice(0, 200)}...` : text)

/** Python's range, as long as a list may be. */
function range(...bounds: unknown[]): number[] {
  if (bounds.length < 1 || bounds.length > 3 || !bounds.every(Number.isInteger)) {
    throw new Error('range() takes one to three whole numbers')
  }
  const [start, stop, step = 1] = (bounds.length === 1 ? [0, ...bounds] : bounds) as number[]
  if (step === 0) throw new Error('range() step must not be zero')
  const length = Math.max(0, Math.ceil((stop - start) / step))
  if (length > LONGEST_VALUE)
    throw new Excess(`a range of ${length} numbers, where ${LONGEST_VALUE} are allowed`)
  return Array.from({ length }, (_, i) => start + i * step)
}

/** What every template finds; what transformers passes and a chat does not have is none, not undefined. */
const globals = {
  true: true,
  True: true,
  false: false,
  False: false,
  none: null,
  None: null,
  range,
  raise_exception(message: unknown) {
    throw new Refusal(String(message))
  },
  strftime_now: () => fixedDate,
  tools: null,
  documents: null,
}

/** What is looked at of a template's tree. */
interface Node {
  type: string
  value?: unknown
}
const isNamespace = (value: unknown) => (value as Node | undefined)?.type === 'NamespaceValue'
interface CallNode extends Node {
  callee: Node & { object?: Node; property?: Node; computed?: boolean }
  args: Node[]
}
interface SetNode extends Node {
  assignee: Node
  value: Node | null
}
interface FilterNode extends Node {
  operand: Node
  filter: Node
}

/**
 * The library's interpreter, which every part of a template goes through: counting, and taking white space away as
 * Python does, where the library goes by JavaScript's and whatever is to be taken.
 */
class ChatInterpreter extends Interpreter {
  private steps = 0
  /** What is put into a namespace, as nodes of the template. */
  private readonly kept = new WeakSet<object>()

  override evaluate(statement: unknown, scope: Scope): Value | undefined {
    const node = statement as Node | undefined
    this.take(1)
    if (node?.type === 'Set') {
      const { assignee, value } = node as SetNode
      if (assignee.type === 'MemberExpression' && value) this.kept.add(value)
    }
    const result = this.stripped(node, scope) ?? super.evaluate(statement, scope)
    const isOld = node?.type === 'Identifier' || node?.type === 'MemberExpression'
    // What was there already was weighed when it was made.
    if (isOld) this.take(this.lengthOf(result))
    else this.weigh(result)
    if (node && this.kept.has(node) && isNamespace(result)) throw new Excess('a namespace within another')
    return result
  }

  private take(steps: number): void {
    this.steps += steps
    if (this.steps > MOST_STEPS) throw new Excess(`more than ${MOST_STEPS} steps`)
  }

  /** How many steps a value's own characters or elements are. */
  private lengthOf(result: Value | undefined): number {
    const value = result?.value
    const length = sizeOf(value)
    if (length > LONGEST_VALUE) {
      throw new Excess(`a value of ${length} characters or elements, where ${LONGEST_VALUE} are allowed`)
    }
    return typeof value === 'string' ? Math.floor(length / 64) : length
  }

  /**
   * A list that holds one list twice, and so on, is as long as what is written of it. Only namespaces change after they
   * are made: they stand in no value.
   */
  private weigh(result: Value | undefined): void {
    const left = [result]
    for (let next = left.pop(); next !== undefined; next = left.pop()) {
      this.take(this.lengthOf(next))
      const { value } = next
      if (typeof value === 'string' || sizeOf(value) === 0) continue
      for (const element of (value as Map<string, Value> | Value[]).values()) {
        if (isNamespace(element)) throw new Excess('a namespace within a value')
        left.push(element)
      }
    }
  }

  /** `text | trim`, and `text.strip(characters)` with its like; undefined for anything else. */
  private stripped(node: Node | undefined, scope: Scope): Value | undefined {
    if (node?.type === 'FilterExpression') {
      const { operand, filter } = node as FilterNode
      if (filter.type !== 'Identifier' || filter.value !== 'trim') return undefined
      return this.strip(this.evaluate(operand, scope), 'strip')
    }
    if (node?.type !== 'CallExpression') return undefined
    const { callee, args } = node as CallNode
    const { object, property, computed } = callee
    const method = property?.value
    if (callee.type !== 'MemberExpression' || computed || !isStrip(method) || args.length > 1)
      return undefined
    const text = this.evaluate(object, scope)
    const characters = args.length === 1 ? this.evaluate(args[0], scope)?.value : undefined
    if (typeof text?.value !== 'string' || (args.length === 1 && typeof characters !== 'string')) {
      throw new Error(`${method}() is asked of what is no text, or with what is none`)
    }
    return this.strip(text, method, characters as string | undefined)
  }

  private strip(text: Value | undefined, method: keyof typeof ends, characters?: string): Value {
    if (typeof text?.value !== 'string') throw new Error('trim is asked of what is no text')
    const all = Array.from(text.value)
    const taken = characters === undefined ? pythonSpace : new Set(characters)
    let [from, to] = [0, all.length]
    if (ends[method].left) while (from < to && taken.has(all[from])) from++
    if (ends[method].right) while (to > from && taken.has(all[to - 1])) to--
    const Text = text.constructor as new (value: string) => Value
    return new Text(all.slice(from, to).join(''))
  }
}

/** Which ends Python's methods of a text take characters from. */
const ends = {
  strip: { left: true, right: true },
  lstrip: { left: true, right: false },
  rstrip: { left: false, right: true },
}
const isStrip = (name: unknown): name is keyof typeof ends =>
  typeof name === 'string' && Object.hasOwn(ends, name)

/** What Python's str.isspace() says yes to. */
const pythonSpace = new Set(
  '\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a' +
    '\u2028\u2029\u202f\u205f\u3000',
)

function sizeOf(value: unknown): number {
  if (typeof value === 'string' || Array.isArray(value)) return value.length
  return value instanceof Map ? value.size : 0
}
