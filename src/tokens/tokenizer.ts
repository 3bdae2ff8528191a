/**
 * A checkpoint's own tokenizer and chat template, behind the engine contract's `ChatTokenizer`. Touches the
 * checkpoint's files only, when it is loaded.
 *
 * Text never makes a control token. Notes are written by models and read by models: one that spells `<|im_end|>`
 * must be read as those ten characters, or a note could close its reader's turn and open another. Looking for
 * control tokens in a rendered chat cannot tell the template's own from those that a message spells, so the two are
 * kept apart from the start:
 *
 * 1. In the tokenizer, each control token is known by a private spelling, a noncharacter and then its text, which
 *    no text can hold (a noncharacter in a text becomes U+FFFD).
 * 2. Before rendering, every character in a message that could begin a control token gets a mark behind it, so the
 *    rendered chat holds whole control tokens only where the template wrote them. Those get their private spelling;
 *    then the marks go.
 *
 * That goes for a thought's tags too, where the template writes them: an earlier reply's thoughts are text like any other,
 * so give a chat what followed them (`thought.ts`).
 *
 * The whole chat is still encoded in one piece, so ordinary text gets the ids that transformers'
 * `apply_chat_template` gives it.
 */

import { Tokenizer } from '@huggingface/tokenizers'
import { z } from 'zod'
import { UserError } from '../errors.ts'
import { readJsonFile, readTextFile } from '../files.ts'
import { join } from '../platform/path.ts'
import type { ChatMessage, ChatTokenizer } from './chat.ts'
import { checkPatterns } from './patterns.ts'
import { checkArguments, openTemplate, type TemplateArguments } from './template.ts'
import { endsInThought } from './thought.ts'

export interface CheckpointTokenizer extends ChatTokenizer {
  /** Token ids of text as text: no special token is added, and none is recognised. */
  encode(text: string): number[]
  /** Text of tokens, special ones skipped; ids that the vocabulary lacks are skipped too. */
  decode(tokens: readonly number[]): string
  /**
   * False when the checkpoint has no chat template. Chats are then written plainly: the `bos_token` if there is
   * one, `System:`, `User:` or `Assistant:` before each message, a blank line after it, and `Assistant:` at the end.
   */
  readonly hasTemplate: boolean
}

/** Noncharacters: Unicode keeps them out of text for a program's own use. */
const privateMark = '\uFDD0'
const breakMark = '\uFDD1'
const marks = /[\uFDD0\uFDD1]/g

/** The largest vocabularies have 256,000 tokens; tables are made by id. */
const LARGEST_ID = (1 << 24) - 1
/** Tokens that chats are searched for; the largest vocabularies have some thousands. */
const MOST_CONTROLS = 1 << 16

const idSchema = z.number().int().nonnegative().max(LARGEST_ID)
const isId = (value: unknown) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= LARGEST_ID
const addedTokenSchema = z.looseObject({ id: idSchema, content: z.string().min(1), special: z.boolean() })
type AddedToken = z.infer<typeof addedTokenSchema>
const tokenizerSchema = z.looseObject({
  added_tokens: z.array(addedTokenSchema),
  model: z.looseObject({
    type: z.literal('BPE', { error: "only 'BPE' is supported" }),
    // Not z.record: a real vocabulary has 150,000 entries, and the schema need not copy them.
    vocab: z.custom<Record<string, number>>(
      (value) => typeof value === 'object' && value !== null && Object.values(value).every(isId),
      'must map tokens to ids',
    ),
    unk_token: z.string().nullish(),
    dropout: z.literal(0, { error: 'merges that are left out at random are not supported' }).nullish(),
    continuing_subword_prefix: z.literal('', { error: "only '' is supported" }).nullish(),
  }),
})

/** Tokens that a template is given by name. */
const namedTokenSchema = z.union([z.string(), z.looseObject({ content: z.string() })]).nullish()
const tokenNames = [
  'bos_token',
  'eos_token',
  'unk_token',
  'sep_token',
  'pad_token',
  'cls_token',
  'mask_token',
] as const
const namedTokensSchema = z.looseObject(
  Object.fromEntries(tokenNames.map((name) => [name, namedTokenSchema])) as Record<
    (typeof tokenNames)[number],
    typeof namedTokenSchema
  >,
)
const tokenizerConfigSchema = namedTokensSchema.extend({
  add_bos_token: z.boolean().nullish(),
  added_tokens_decoder: z.unknown().optional(),
  chat_template: z
    .union([z.string(), z.array(z.looseObject({ name: z.string(), template: z.string() }))])
    .nullish(),
})
const eosSchema = z.union([idSchema, z.array(idSchema)]).nullish()
const modelConfigSchema = z.looseObject({ vocab_size: z.number().int().positive(), eos_token_id: eosSchema })
const generationConfigSchema = z.looseObject({ eos_token_id: eosSchema })

export interface TokenizerOptions {
  /** What the chat template is given beside the chat, such as `{ enable_thinking: false }`. */
  template?: TemplateArguments
}

/**
 * Loads `tokenizer.json` and, where they exist, the rest of `tokenizerFiles` (`files.ts`) from a checkpoint folder. Throws UserError
 * when a file is missing or malformed, when the vocabulary is larger than the model's embedding, when nothing says which
 * token ends a reply, and for a chat template that is broken or not supported.
 */
export async function loadTokenizer(
  folder: string,
  { template: given = {} }: TokenizerOptions = {},
): Promise<CheckpointTokenizer> {
  checkArguments(given)
  const path = join(folder, 'tokenizer.json')
  const optional = { optional: true } as const
  const json = await readJsonFile(path, tokenizerSchema)
  const settings = await readSettings(folder)
  const model = await readJsonFile(join(folder, 'config.json'), modelConfigSchema, optional)
  const generation = await readJsonFile(
    join(folder, 'generation_config.json'),
    generationConfigSchema,
    optional,
  )

  const { model: _, ...parts } = json
  checkPatterns(path, parts)
  const { vocab } = json.model
  const idOf = (token: string) =>
    json.added_tokens.find(({ content }) => content === token)?.id ??
    (Object.hasOwn(vocab, token) ? vocab[token] : undefined)
  const source = await readTemplate(folder, settings.chat_template)
  const named = namedTokens(settings)
  const stop = new Set([generation?.eos_token_id ?? model?.eos_token_id ?? []].flat())
  const eosId = named.eos_token === undefined ? undefined : idOf(named.eos_token)
  if (eosId !== undefined) stop.add(eosId)
  if (stop.size === 0) {
    throw new UserError(
      `Nothing in ${folder} says which token ends a reply. Set eos_token_id in its generation_config.json.`,
    )
  }

  const largest = [...Object.values(vocab), ...json.added_tokens.map(({ id }) => id)].reduce(
    (a, b) => Math.max(a, b),
    0,
  )
  if (model && largest >= model.vocab_size) {
    throw new UserError(
      `${path} has a token with id ${largest}, and the model's embedding has ${model.vocab_size} rows. Use files of one model.`,
    )
  }

  const controls = json.added_tokens.filter(
    ({ id, content, special }) => special || stop.has(id) || source?.includes(content),
  )
  if (controls.length > MOST_CONTROLS) {
    throw new UserError(
      `${path} has ${controls.length} control tokens, more than ${MOST_CONTROLS}. Use a Llama or Qwen tokenizer.`,
    )
  }
  const controlIds = new Set(controls.map(({ id }) => id))
  const spellings = spellingsOf(controls)
  const tokenizer = buildTokenizer(path, json, settings, controls)
  const template = source === undefined ? undefined : openTemplate(source, folder)
  /** The library finds some faults of a tokenizer's files at the first text that meets them. */
  const orRefuse = <T>(work: () => T): T => {
    try {
      return work()
    } catch (error) {
      throw unusable(path, error as Error)
    }
  }
  const ids = (text: string) => orRefuse(() => tokenizer.encode(text, { add_special_tokens: false }).ids)
  const write = (messages: readonly ChatMessage[]) =>
    template
      ? template.render({ ...named, ...given, messages, add_generation_prompt: true })
      : renderPlainly(messages, settings.add_bos_token === false ? undefined : named.bos_token)

  return {
    hasTemplate: template !== undefined,
    opensThought: template !== undefined && opensThought(write),
    stop: [...stop],
    encode: (text) => ids(text.replace(marks, '\uFFFD')),
    decode(tokens) {
      const known = tokens.filter((id) => tokenizer.id_to_token(id) !== undefined)
      if (known.length === 0) return ''
      const options = { skip_special_tokens: true, clean_up_tokenization_spaces: false }
      return orRefuse(() => tokenizer.decode(known, options)).replaceAll(privateMark, '')
    },
    chat(messages) {
      const marked = messages.map(({ role, content }) => ({
        role,
        content: spellings.breakUp(content.replace(marks, '\uFFFD')),
      }))
      const { text, count } = spellings.makePrivate(write(marked))
      const tokens = ids(text.replaceAll(breakMark, ''))
      // The guarantee above, held against what the tokenizer did.
      if (tokens.filter((id) => controlIds.has(id)).length !== count) {
        throw new UserError(
          `${path} cannot be used: it makes control tokens from the text of a message. Use a Llama or Qwen tokenizer.`,
        )
      }
      return tokens
    },
  }
}

/**
 * `tokenizer_config.json`, with the tokens that `special_tokens_map.json` names: as in transformers, which looks there
 * where the former was written before it held all of them (it has no `added_tokens_decoder`).
 */
async function readSettings(folder: string): Promise<z.infer<typeof tokenizerConfigSchema>> {
  const optional = { optional: true } as const
  const settings: z.infer<typeof tokenizerConfigSchema> =
    (await readJsonFile(join(folder, 'tokenizer_config.json'), tokenizerConfigSchema, optional)) ?? {}
  if (settings.added_tokens_decoder !== undefined) return settings
  const named = await readJsonFile(join(folder, 'special_tokens_map.json'), namedTokensSchema, optional)
  return { ...settings, ...named }
}

/** Whether the reply begins inside a thought. A template that refuses this chat will say so of the one it is asked for. */
function opensThought(write: (messages: ChatMessage[]) => string): boolean {
  try {
    return endsInThought(write([{ role: 'user', content: '?' }]))
  } catch {
    return false
  }
}

/** What is used of the library's tokenizer; its own declarations do not resolve under Node's module rules. */
interface LibraryTokenizer {
  encode(text: string, options: { add_special_tokens: boolean }): { ids: number[] }
  decode(
    ids: number[],
    options: { skip_special_tokens: boolean; clean_up_tokenization_spaces: boolean },
  ): string
  id_to_token(id: number): string | undefined
  pre_tokenizer: LibraryPreTokenizer | null
}

/** What cuts a text into pieces, by one step or by several in turn. */
interface LibraryPreTokenizer {
  config?: { type?: string }
  tokenizers?: readonly (LibraryPreTokenizer | null)[]
  pre_tokenize_text(text: string, options?: object): string[]
}

/** The two rewritings of text that keep control tokens and messages apart; see the head of this file. */
function spellingsOf(controls: readonly AddedToken[]) {
  // Longest first: where one token begins another, the tokenizer too takes the longer.
  const contents = controls.map(({ content }) => content).sort((a, b) => b.length - a.length)
  const firsts = [...new Set(contents.map((content) => String.fromCodePoint(content.codePointAt(0) ?? 0)))]
  const anyToken = alternatives(contents)
  const anyFirst = alternatives(firsts)
  return {
    /** No control token can begin in the result. */
    breakUp: (text: string) => text.replace(anyFirst, (first) => `${first}${breakMark}`),
    /** Every control token in its private spelling, and how many there were. */
    makePrivate(text: string) {
      let count = 0
      const result = text.replace(anyToken, (token) => {
        count++
        return `${privateMark}${token}`
      })
      return { text: result, count }
    },
  }
}

function alternatives(texts: readonly string[]): RegExp {
  // Of no texts, a pattern that matches nowhere; an empty alternative would match everywhere.
  if (texts.length === 0) return /(?!)/g
  return new RegExp(texts.map((text) => text.replace(/[.*+?^${}()|[\]\\/-]/g, '\\$&')).join('|'), 'g')
}

/** The library's tokenizer, with control tokens under their private spelling. Takes `json` over. */
function buildTokenizer(
  path: string,
  json: z.infer<typeof tokenizerSchema>,
  settings: object,
  controls: readonly AddedToken[],
): LibraryTokenizer {
  const { vocab } = json.model
  for (const { content } of controls) {
    // Also in the vocabulary, or a word spelt like the token would be looked up there.
    if (Object.hasOwn(vocab, content)) {
      vocab[`${privateMark}${content}`] = vocab[content]
      delete vocab[content]
    }
    if (json.model.unk_token === content) json.model.unk_token = `${privateMark}${content}`
  }
  const isControl = new Set(controls)
  const added_tokens = json.added_tokens.map((token) =>
    isControl.has(token) ? { ...token, content: `${privateMark}${token.content}` } : token,
  )
  try {
    const pre_tokenizer = withUnicodeDigits(json.pre_tokenizer)
    const tokenizer: LibraryTokenizer = new Tokenizer({ ...json, pre_tokenizer, added_tokens }, settings)
    keepSpellings(tokenizer.pre_tokenizer)
    return tokenizer
  } catch (error) {
    throw unusable(path, error as Error)
  }
}

/** Pieces whose spelling is kept, and how long they are at most; where there are more, those so far are forgotten. */
const MOST_SPELLINGS = 1 << 13
const LONGEST_SPELT = 256

/**
 * A `ByteLevel` step spells every byte of a text as a letter, a third and more of the library's work. The texts of a task
 * are made of the same pieces over and over, so each is spelt once.
 */
function keepSpellings(step: LibraryPreTokenizer | null): void {
  step?.tokenizers?.forEach(keepSpellings)
  if (step?.config?.type !== 'ByteLevel') return
  const spell = step.pre_tokenize_text.bind(step)
  const spellings = new Map<string, string[]>()
  step.pre_tokenize_text = (text) => {
    const known = spellings.get(text)
    if (known !== undefined) return known
    const spelt = spell(text)
    if (text.length > LONGEST_SPELT) return spelt
    if (spellings.size === MOST_SPELLINGS) spellings.clear()
    spellings.set(text, spelt)
    return spelt
  }
}

function unusable(path: string, { message }: Error): UserError {
  return new UserError(`${path} cannot be used (${message}). Use a Llama or Qwen tokenizer.`)
}

/**
 * A pre-tokenizer with its `Digits` steps said as splits at Unicode's numbers, as Python's tokenizers takes them: the
 * library's own step knows the ten ASCII digits alone, and would glue the three quarters of a pizza to the space before.
 */
function withUnicodeDigits(step: unknown): unknown {
  if (typeof step !== 'object' || step === null) return step
  if ('type' in step && step.type === 'Digits') {
    const alone = 'individual_digits' in step && step.individual_digits === true
    return {
      type: 'Split',
      pattern: { Regex: alone ? '\\p{N}' : '\\p{N}+' },
      behavior: 'Isolated',
      invert: false,
    }
  }
  if ('pretokenizers' in step && Array.isArray(step.pretokenizers)) {
    return { ...step, pretokenizers: step.pretokenizers.map(withUnicodeDigits) }
  }
  return step
}

/** The template's source: `chat_template.jinja` where there is one (as in transformers), else the settings'. */
async function readTemplate(
  folder: string,
  inSettings: z.infer<typeof tokenizerConfigSchema>['chat_template'],
): Promise<string | undefined> {
  const file = await readTextFile(join(folder, 'chat_template.jinja'), { optional: true })
  if (file !== undefined) return file
  if (!Array.isArray(inSettings)) return inSettings ?? undefined
  return inSettings.find(({ name }) => name === 'default')?.template
}

const speakers = { system: 'System', user: 'User', assistant: 'Assistant' } as const

function renderPlainly(messages: readonly ChatMessage[], bos = ''): string {
  const turns = messages.map(({ role, content }) => `${speakers[role]}: ${content}\n\n`)
  return `${bos}${turns.join('')}${speakers.assistant}:`
}

/** `bos_token` and its like as text, as templates see them. */
function namedTokens(settings: z.infer<typeof namedTokensSchema>) {
  const named: Partial<Record<(typeof tokenNames)[number], string>> = {}
  for (const name of tokenNames) {
    const token = settings[name]
    const text = typeof token === 'string' ? token : token?.content
    // Absent, not undefined: a template's `is defined` must say no.
    if (text !== undefined) named[name] = text
  }
  return named
}
