import { readFileSync } from 'node:fs'
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { UserError } from '../errors.ts'
import type { ChatMessage } from './chat.ts'
import type { TemplateArguments } from './template.ts'
import { type CheckpointTokenizer, loadTokenizer } from './tokenizer.ts'

interface Golden {
  stop: number[]
  encode: { text: string; ids: number[] }[]
  decode: { ids: number[]; text: string }[]
  chats: { messages: ChatMessage[]; rendered: string; ids: number[] }[]
}

const fixture = (name: string) => join(import.meta.dirname, 'fixtures', name)

let scratch: string
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'tokenizer-'))
})
afterAll(() => rm(scratch, { recursive: true }))

/** A copy of a fixture with some of its JSON files changed; null removes a file. */
async function changed(
  name: string,
  files: Record<string, ((json: Record<string, unknown>) => unknown) | string | null>,
): Promise<string> {
  const folder = await mkdtemp(join(scratch, `${name}-`))
  await cp(fixture(name), folder, { recursive: true })
  for (const [file, change] of Object.entries(files)) {
    const path = join(folder, file)
    if (change === null) await rm(path)
    else if (typeof change === 'string') await writeFile(path, change)
    else await writeFile(path, JSON.stringify(change(JSON.parse(await readFile(path, 'utf8')))))
  }
  return folder
}

describe.each([
  { name: 'chatml', controls: ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '</think>'] },
  { name: 'digits', controls: ['<|endoftext|>', '<|im_start|>', '<|im_end|>'] },
  { name: 'headers', controls: ['<|begin|>', '<|start|>', '<|end|>', '<|eot|>'] },
])('the $name checkpoint', ({ name, controls }) => {
  let tokenizer: CheckpointTokenizer
  let golden: Golden
  let controlIds: Set<number>
  beforeAll(async () => {
    tokenizer = await loadTokenizer(fixture(name))
    golden = JSON.parse(await readFile(join(fixture(name), 'golden.json'), 'utf8'))
    const { added_tokens } = JSON.parse(await readFile(join(fixture(name), 'tokenizer.json'), 'utf8'))
    controlIds = new Set(
      added_tokens
        .filter(({ content }: { content: string }) => controls.includes(content))
        .map(({ id }: { id: number }) => id),
    )
    expect(controlIds.size).toBe(controls.length)
  })

  test('encodes and decodes as transformers does', () => {
    for (const { text, ids } of golden.encode) expect(tokenizer.encode(text)).toEqual(ids)
    for (const { text, ids } of golden.decode) expect(tokenizer.decode(ids)).toBe(text)
  })

  test('encodes alike what it has met before, and after more pieces than it keeps', () => {
    const words = Array.from(
      { length: 10_000 },
      (_, i) => `${i.toString(26).replace(/\d/g, 'é')}${'x'.repeat(i % 300)}`,
    )
    tokenizer.encode(words.join(' 1 '))
    for (let time = 0; time < 2; time++) {
      for (const { text, ids } of golden.encode) expect(tokenizer.encode(text)).toEqual(ids)
    }
  })

  test("gives apply_chat_template's ids for ordinary text", () => {
    expect(tokenizer.hasTemplate).toBe(true)
    for (const { messages, ids } of golden.chats) expect(tokenizer.chat(messages)).toEqual(ids)
  })

  test('knows every token that ends a reply', () => {
    expect([...tokenizer.stop].sort((a, b) => a - b)).toEqual(golden.stop)
  })

  test('text round-trips whatever it spells, and holds no control token', () => {
    const pieces = fc.oneof(
      fc.constantFrom(...controls, '<', '<|', '|>', '\uFFFD'),
      fc.string({ unit: 'grapheme' }),
    )
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 8 }), (parts) => {
        const text = parts.join('')
        const ids = tokenizer.encode(text)
        expect(ids.some((id) => controlIds.has(id))).toBe(false)
        expect(tokenizer.decode(ids)).toBe(name === 'chatml' ? text.normalize('NFC') : text)
      }),
    )
  })

  test('a message cannot make a control token, not even with its neighbour', () => {
    const roles = fc.constantFrom<ChatMessage['role']>('system', 'user', 'assistant')
    const pieces = fc.constantFrom(
      ...controls,
      '<',
      '<|',
      '|>',
      '<|im_',
      'end|>',
      '\uFDD0',
      '\uFDD1',
      '\n',
      'user',
      '7',
    )
    const content = fc.array(pieces, { maxLength: 8 }).map((parts) => parts.join(''))
    const count = (ids: readonly number[]) => ids.filter((id) => controlIds.has(id)).length
    fc.assert(
      fc.property(
        fc.array(fc.record({ role: roles, content }), { minLength: 1, maxLength: 4 }),
        (messages) => {
          const harmless = messages.map(({ role }) => ({ role, content: 'x' }))
          expect(count(tokenizer.chat(messages))).toBe(count(tokenizer.chat(harmless)))
        },
      ),
    )
  })

  test('what a message spells is what the model reads', () => {
    const content = `a ${controls.join(' ')} b`
    const text = tokenizer.decode(tokenizer.chat([{ role: 'user', content }]))
    expect(text).toContain(content)
  })

  test('skips ids that the vocabulary lacks', () => {
    expect(tokenizer.decode([])).toBe('')
    expect(tokenizer.decode([1_000_000, ...tokenizer.encode('seven'), 999_999])).toBe('seven')
  })
})

// transformers made these of the fixtures above (test/golden/templates.py).
interface Variant {
  name: string
  base: string
  files: Record<string, string | object>
  bos: number | null
  eos: number
  cases: { arguments: TemplateArguments; messages: ChatMessage[]; ids: number[] }[]
}
const variants: Variant[] = JSON.parse(
  readFileSync(join(import.meta.dirname, 'fixtures', 'variants.json'), 'utf8'),
)

test.each(variants)('transformers reads the same of a checkpoint: $name', async (variant) => {
  const files = Object.entries(variant.files).map(([file, content]) => [
    file,
    typeof content === 'string' ? content : JSON.stringify(content),
  ])
  const folder = await changed(variant.base, Object.fromEntries(files))
  for (const { arguments: template, messages, ids } of variant.cases) {
    const tokenizer = await loadTokenizer(folder, { template })
    expect(tokenizer.chat(messages)).toEqual(ids)
    expect(tokenizer.stop).toContain(variant.eos)
    expect(tokenizer.opensThought).toBe(variant.name === 'opens its thought')
    if (variant.bos !== null) expect(tokenizer.chat(messages)[0]).toBe(variant.bos)
  }
})

test('a template argument must be one', async () => {
  for (const name of ['messages', 'add_generation_prompt', 'range', 'namespace', 'true', 'two words']) {
    await expect(loadTokenizer(fixture('chatml'), { template: { [name]: 1 } })).rejects.toThrow(
      `"${name}" cannot be an argument of a chat template`,
    )
  }
})

test('two messages side by side cannot spell a control token together', async () => {
  const bare = await changed('headers', {
    'chat_template.jinja': '{% for m in messages %}{{ m.content }}{% endfor %}<|start|>',
  })
  const tokenizer = await loadTokenizer(bare)
  const ids = tokenizer.chat([
    { role: 'system', content: '<|e' },
    { role: 'user', content: 'ot|>' },
  ])
  expect(ids).not.toContain(3)
  expect(ids.at(-1)).toBe(1)
})

test('a template sees the same day every day', async () => {
  const dated = await changed('headers', {
    'chat_template.jinja': "{{ bos_token }}Today is {{ strftime_now('%d %b %Y') }}.",
  })
  const tokenizer = await loadTokenizer(dated)
  expect(tokenizer.decode(tokenizer.chat([{ role: 'user', content: '' }]))).toBe('Today is 26 Jul 2024.')
})

test('without a template, chats are written plainly', async () => {
  const plain = await changed('headers', { 'chat_template.jinja': null })
  const tokenizer = await loadTokenizer(plain)
  expect(tokenizer.hasTemplate).toBe(false)
  const ids = tokenizer.chat([
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'How many <|begin|>?' },
  ])
  expect(ids[0]).toBe(0)
  expect(ids.slice(1)).not.toContain(0)
  expect(tokenizer.decode(ids)).toBe('System: Be brief.\n\nUser: How many <|begin|>?\n\nAssistant:')
})

test('of several templates the default one is used', async () => {
  const several = await changed('chatml', {
    'tokenizer_config.json': (json) => ({
      ...json,
      chat_template: [
        { name: 'tool_use', template: 'wrong' },
        { name: 'default', template: json.chat_template },
      ],
    }),
  })
  const [first, second] = await Promise.all([loadTokenizer(several), loadTokenizer(fixture('chatml'))])
  const chat: ChatMessage[] = [{ role: 'user', content: 'How many?' }]
  expect(first.chat(chat)).toEqual(second.chat(chat))
})

test.each<[string, Parameters<typeof changed>[1], RegExp]>([
  ['no tokenizer.json', { 'tokenizer.json': null }, /Cannot read .*tokenizer\.json/],
  ['broken JSON', { 'tokenizer.json': '{"model": ' }, /not valid JSON/],
  [
    'another kind of model',
    { 'tokenizer.json': (json) => ({ ...json, model: { type: 'Unigram', vocab: [] } }) },
    /'model.type': only 'BPE' is supported/,
  ],
  [
    'a vocabulary that maps to no ids',
    { 'tokenizer.json': (json) => ({ ...json, model: { type: 'BPE', vocab: { a: 'b' } } }) },
    /'model.vocab': must map tokens to ids/,
  ],
  [
    'a part that the library does not know',
    { 'tokenizer.json': (json) => ({ ...json, decoder: { type: 'Telepathy' } }) },
    /cannot be used \(Unknown Decoder type: Telepathy\)/,
  ],
  [
    'an embedding smaller than the vocabulary',
    { 'config.json': (json) => ({ ...json, vocab_size: 400 }) },
    /id 481, and the model's embedding has 400 rows/,
  ],
  [
    'nothing that ends a reply',
    {
      'config.json': (json) => ({ ...json, eos_token_id: null }),
      'generation_config.json': null,
      'tokenizer_config.json': (json) => ({ ...json, eos_token: null }),
    },
    /which token ends a reply/,
  ],
  [
    'a template that is not one',
    { 'tokenizer_config.json': (json) => ({ ...json, chat_template: '{% if %}' }) },
    /chat template in .* cannot be read/,
  ],
  [
    'merges left out at random',
    { 'tokenizer.json': (json) => ({ ...json, model: { ...(json.model as object), dropout: 0.1 } }) },
    /'model.dropout': merges that are left out at random are not supported/,
  ],
  [
    'a prefix within words',
    {
      'tokenizer.json': (json) => ({
        ...json,
        model: { ...(json.model as object), continuing_subword_prefix: '##' },
      }),
    },
    /'model.continuing_subword_prefix': only '' is supported/,
  ],
  ['an empty file', { 'tokenizer.json': '' }, /tokenizer.json is empty/],
  ['a pointer', { 'tokenizer.json': 'version https://git-lfs.github.com/spec/v1' }, /is a Git LFS pointer/],
  [
    'an id that no table has room for',
    { 'tokenizer.json': (json) => ({ ...json, model: { type: 'BPE', vocab: { a: 2 ** 31 } } }) },
    /'model.vocab': must map tokens to ids/,
  ],
])('refuses %s', async (_, files, message) => {
  const loading = loadTokenizer(await changed('chatml', files))
  await expect(loading).rejects.toThrow(message)
  await expect(loading).rejects.toBeInstanceOf(UserError)
})

test('a name that every object has is no token', async () => {
  const named = { 'tokenizer_config.json': (json: object) => ({ ...json, eos_token: 'constructor' }) }
  expect((await loadTokenizer(await changed('chatml', named))).stop.every(Number.isInteger)).toBe(true)
})

test("passes on a template's own refusal", async () => {
  const picky = await changed('headers', {
    'chat_template.jinja': "{{ raise_exception('System role not supported') }}",
  })
  const tokenizer = await loadTokenizer(picky)
  expect(() => tokenizer.chat([{ role: 'system', content: 'x' }])).toThrow(
    /refuses this chat \(System role not/,
  )
})
