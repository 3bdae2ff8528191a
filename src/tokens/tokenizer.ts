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
 * The whole chat is still encoded in one piece, so ordinary text gets the ids that transformers'
 * `apply_chat_template` gives it.
 */

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Template } from '@huggingface/jinja'
import { Tokenizer } from '@huggingface/tokenizers'
import { z } from 'zod'
import type { ChatMessage, ChatTokenizer } from '../engine/contract.ts'
import { UserError } from '../errors.ts'
import { readJsonFile } from '../files.ts'

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

/** What `strftime_now` says in a template, which transformers answers with today: a run must not depend on its day. */
const fixedDate = '26 Jul 2024' // Llama 3's templates fall back on this one

const idSchema = z.number().int().nonnegative()
const addedTokenSchema = z.looseObject({ id: idSchema, content: z.string(), special: z.boolean() })
type AddedToken = z.infer<typeof addedTokenSchema>
const tokenizerSchema = z.looseObject({
  added_tokens: z.array(addedTokenSchema),
  model: z.looseObject({
    type: z.literal('BPE', { error: "only 'BPE' is supported" }),
    // Not z.record: a real vocabulary has 150,000 entries, and the schema need not copy them.
    vocab: z.custom<Record<string, number>>(
      (value) =>
        typeof value === 'object' && value !== null && Object.values(value).every(Number.isSafeInteger),
      'must map tokens to ids',
    ),
    unk_token: z.string().nullish(),
  }),
})

const namedTokenSchema = z.union([z.string(), z.looseObject({ content: z.string() })]).nullish()
const tokenizerConfigSchema = z.looseObject({
  bos_token: namedTokenSchema,
  eos_token: namedTokenSchema,
  unk_token: namedTokenSchema,
  pad_token: namedTokenSchema,
  add_bos_token: z.boolean().nullish(),
  chat_template: z
    .union([z.string(), z.array(z.looseObject({ name: z.string(), template: z.string() }))])
    .nullish(),
})
const eosSchema = z.union([idSchema, z.array(idSchema)]).nullish()
const modelConfigSchema = z.looseObject({ vocab_size: z.number().int().positive(), eos_token_id: eosSchema })
const generationConfigSchema = z.looseObject({ eos_token_id: eosSchema })

/**
 * Loads `tokenizer.json` and, where they exist, `tokenizer_config.json`, `chat_template.jinja`, `config.json` and
 * `generation_config.json` from a checkpoint folder. Throws UserError when a file is missing or malformed, when the
 * vocabulary is larger than the model's embedding, and when nothing says which token ends a reply.
 */
export async function loadTokenizer(folder: string): Promise<CheckpointTokenizer> {
  const path = join(folder, 'tokenizer.json')
  const optional = { optional: true } as const
  const json = await readJsonFile(path, tokenizerSchema)
  const settings =
    (await readJsonFile(join(folder, 'tokenizer_config.json'), tokenizerConfigSchema, optional)) ?? {}
  const model = await readJsonFile(join(folder, 'config.json'), modelConfigSchema, optional)
  const generation = await readJsonFile(
    join(folder, 'generation_config.json'),
    generationConfigSchema,
    optional,
  )

  const idOf = (token: string) =>
    json.added_tokens.find(({ content }) => content === token)?.id ?? json.model.vocab[token]
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

  const largest = [...Object.values(json.model.vocab), ...json.added_tokens.map(({ id }) => id)].reduce(
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
  const controlIds = new Set(controls.map(({ id }) => id))
  const spellings = spellingsOf(controls)
  const tokenizer = buildTokenizer(path, json, settings, controls)
  const template = source === undefined ? undefined : parseTemplate(source, folder)
  const ids = (text: string) => tokenizer.encode(text, { add_special_tokens: false }).ids

  return {
    hasTemplate: template !== undefined,
    stop: [...stop],
    encode: (text) => ids(text.replace(marks, '\uFFFD')),
    decode(tokens) {
      const known = tokens.filter((id) => tokenizer.id_to_token(id) !== undefined)
      if (known.length === 0) return ''
      const text = tokenizer.decode(known, { skip_special_tokens: true, clean_up_tokenization_spaces: false })
      return text.replaceAll(privateMark, '')
    },
    chat(messages) {
      const marked = messages.map(({ role, content }) => ({
        role,
        content: spellings.breakUp(content.replace(marks, '\uFFFD')),
      }))
      const rendered = template
        ? render(template, { ...named, messages: marked, add_generation_prompt: true }, folder)
        : renderPlainly(marked, settings.add_bos_token === false ? undefined : named.bos_token)
      const { text, count } = spellings.makePrivate(rendered)
      const tokens = ids(text.replaceAll(breakMark, ''))
      // The guarantee above, held against what the tokenizer did.
      if (tokens.filter((id) => controlIds.has(id)).length !== count) {
        throw new Error(`the tokenizer of ${folder} made a control token from the text of a message`)
      }
      return tokens
    },
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
    return new Tokenizer({ ...json, pre_tokenizer, added_tokens }, settings)
  } catch (error) {
    throw new UserError(
      `${path} cannot be used (${(error as Error).message}). Use a Llama or Qwen tokenizer.`,
    )
  }
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
  try {
    return await readFile(join(folder, 'chat_template.jinja'), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  if (!Array.isArray(inSettings)) return inSettings ?? undefined
  return inSettings.find(({ name }) => name === 'default')?.template
}

function parseTemplate(source: string, folder: string): Template {
  try {
    const template = new Template(source)
    // The library predefines strftime_now as a clock; a macro of that name takes its place.
    const clock = new Template(`{% macro strftime_now(format) %}${fixedDate}{% endmacro %}`)
    template.parsed.body.unshift(...clock.parsed.body)
    return template
  } catch (error) {
    throw new UserError(
      `The chat template in ${folder} cannot be read (${(error as Error).message}). Fix it.`,
    )
  }
}

function render(template: Template, variables: Record<string, unknown>, folder: string): string {
  try {
    return template.render(variables)
  } catch (error) {
    // Templates refuse chats on purpose, a system message for instance: their message says what they want.
    throw new UserError(
      `The chat template in ${folder} refuses this chat (${(error as Error).message}). Use another model or other messages.`,
    )
  }
}

const speakers = { system: 'System', user: 'User', assistant: 'Assistant' } as const

function renderPlainly(messages: readonly ChatMessage[], bos = ''): string {
  const turns = messages.map(({ role, content }) => `${speakers[role]}: ${content}\n\n`)
  return `${bos}${turns.join('')}${speakers.assistant}:`
}

/** `bos_token` and its like as text, as templates see them. */
function namedTokens(settings: z.infer<typeof tokenizerConfigSchema>) {
  const text = (token: z.infer<typeof namedTokenSchema>) =>
    typeof token === 'string' ? token : token?.content
  const { bos_token, eos_token, unk_token, pad_token } = settings
  const all = {
    bos_token: text(bos_token),
    eos_token: text(eos_token),
    unk_token: text(unk_token),
    pad_token: text(pad_token),
  }
  // Absent, not undefined: a template's `is defined` must say no.
  return Object.fromEntries(Object.entries(all).filter(([, token]) => token !== undefined)) as Partial<
    typeof all
  >
}
