/**
 * A fuzz campaign on the files that a model comes in: a small checkpoint, its tokenizer with Qwen3's chat template, and an
 * adapter, one or two of their files damaged in seeded ways, then opened as the product opens them. Whatever is wrong is
 * said by a UserError, soon, and without more memory than is stated here. Writes into a folder of its own for a while.
 */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { adapterShape, loadAdapter, saveAdapter } from '../../src/engine/checkpoint/adapter.ts'
import { adapterFingerprint, fingerprint } from '../../src/engine/checkpoint/fingerprint.ts'
import { openCheckpoint, projections } from '../../src/engine/checkpoint/folder.ts'
import { UserError } from '../../src/errors.ts'
import { type Random, random } from '../../src/random.ts'
import { writeTinyModel } from '../../src/selftest/tiny-model.ts'
import { loadTokenizer } from '../../src/tokens/tokenizer.ts'
import { type Campaign, type Extent, fuzz, isProgram, main } from './rounds.ts'

/** Longer than this is a hang, in milliseconds; and more than this above the start is too much memory, in MiB. */
const SLOW = 10_000
const LARGE = 1024

type Files = Map<string, Buffer>
type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

/** Values that files hold where they should not. */
const odd = (r: Random): Json =>
  r.pick<() => Json>([
    () => null,
    () => r.pick([true, false]),
    () => r.pick([0, -1, 1, 2 ** 31, 2 ** 53, 1e300, -1e300, 0.5, 1e-300]),
    () =>
      r.pick(['', 'x', '../../x', '\u0000', '\ud800', '\uFDD0', '__proto__', 'constructor', '<|im_end|>']),
    () => 'x'.repeat(10 ** r.int(6)),
    () => [],
    () => ({}),
    () => Array.from({ length: r.int(2000) }, (_, i) => i),
    () => nested(r.pick([10, 1000, 3000])),
    () => r.pick(['(a+)+$', '.*', '[', '(?P<x>a)', '\\p{L}+', '\\']),
    () =>
      r.pick(['pissa', 'BPE', 'llama', 'qwen3', 'yarn', 'F8_E4M3', 'F32', 'BF16', 'all-linear', 'q_proj']),
    () => `{{ ${soup(r, 6)} }}`,
  ])()

function nested(depth: number): Json {
  let value: Json = 1
  for (let i = 0; i < depth; i++) value = i % 2 === 0 ? [value] : { a: value }
  return value
}

/** Pieces of Jinja in any order. */
function soup(r: Random, most: number): string {
  const pieces = [
    '{{ ',
    ' }}',
    '{% for i in range(',
    ') %}',
    '{% endfor %}',
    '{% if ',
    ' %}',
    '{% endif %}',
    '{% set ns = namespace(x=messages) %}',
    '{% set ns.x = ns.x + ns.x %}',
    '{% macro f(g) %}{{ g(g) }}{% endmacro %}{{ f(f) }}',
    'messages',
    '[0]',
    '.content',
    ' | tojson',
    ' | replace("a", "aa")',
    '.split("")',
    '.strip(1)',
    ' ~ ',
    '1000000000',
    '99',
    '"text"',
    '(',
    ')',
    'loop',
    '.index',
    '{% include "x" %}',
    '{#',
    '-',
    '<|im_start|>',
    '\n',
  ]
  return Array.from({ length: 1 + r.int(most) }, () => r.pick(pieces)).join('')
}

/** A JSON value with one place of it changed: another value, a name gone, a name more. */
function changed(r: Random, value: Json): Json {
  const isMap = typeof value === 'object' && value !== null && !Array.isArray(value)
  const keys = isMap ? Object.keys(value) : []
  if (Array.isArray(value) && value.length > 0 && r.next() < 0.85) {
    const at = r.int(value.length)
    return value.map((element, i) => (i === at ? changed(r, element) : element))
  }
  if (!isMap || r.next() < 0.15) return odd(r)
  const kind = r.int(8)
  if (kind === 0 || keys.length === 0) {
    return {
      ...value,
      [r.pick(['new_setting', 'use_dora', 'rope_scaling', '__metadata__', 'tools'])]: odd(r),
    }
  }
  const key = r.pick(keys)
  if (kind === 1) return Object.fromEntries(Object.entries(value).filter(([name]) => name !== key))
  return Object.fromEntries(
    Object.entries(value).map(([name, old]) => [name, name === key ? changed(r, old) : old]),
  )
}

/** Bytes that are no longer what they were. */
function scarred(r: Random, bytes: Buffer, others: readonly Buffer[]): Buffer {
  const at = r.int(bytes.length + 1)
  return r.pick<() => Buffer>([
    () => bytes.subarray(0, at),
    () => bytes.subarray(at),
    () => Buffer.concat([bytes, bytes.subarray(at)]),
    () => Buffer.alloc(0),
    () => Buffer.concat([Buffer.from('\ufeff'), bytes]),
    () => Buffer.from(bytes.toString('latin1').slice(0, 4000), 'utf16le'),
    () => Buffer.from('version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n'),
    () => Buffer.from('<html><body>Sign in</body></html>'),
    () => r.pick(others),
    () => Buffer.from(`{"a": ${'['.repeat(200_000)}`),
    () => {
      const copy = Buffer.from(bytes)
      for (let i = r.int(8); i >= 0 && copy.length > 0; i--) copy[r.int(copy.length)] ^= 1 << r.int(8)
      return copy
    },
    () => {
      // The beginning is where lengths stand.
      const copy = Buffer.from(bytes)
      for (let i = 0; i < 8 && i < copy.length; i++)
        if (r.next() < 0.5) copy[i] = r.pick([0, 1, 127, 128, 255])
      return copy
    },
  ])()
}

/** A safetensors file whose header is another, of the length that it says or of another. */
function beheaded(r: Random, bytes: Buffer): Buffer {
  const length = Number(bytes.readBigUInt64LE())
  const header = JSON.parse(bytes.subarray(8, 8 + length).toString())
  const json = Buffer.from(JSON.stringify(changed(r, header)))
  const start = Buffer.alloc(8)
  start.writeBigUInt64LE(BigInt(json.length + (r.next() < 0.1 ? r.int(1000) : 0)))
  return Buffer.concat([start, json, bytes.subarray(8 + length)])
}

function damaged(r: Random, name: string, files: Files): Buffer {
  const bytes = files.get(name) as Buffer
  if (r.next() < 0.3) return scarred(r, bytes, [...files.values()])
  if (name.endsWith('.json')) {
    const value: Json = JSON.parse(bytes.toString())
    return Buffer.from(JSON.stringify(r.next() < 0.3 ? changed(r, changed(r, value)) : changed(r, value)))
  }
  if (name.endsWith('.safetensors')) return beheaded(r, bytes)
  const text = bytes.toString()
  const at = r.int(text.length)
  const cut = text.slice(0, at) + soup(r, 8) + text.slice(at + r.int(40))
  return Buffer.from(r.next() < 0.5 ? cut : soup(r, 40))
}

/** Opens all that the folder holds. True where something was refused; throws what is no UserError. */
async function open(folder: string): Promise<boolean> {
  let refused = false
  const attempt = async (work: () => Promise<unknown>) => {
    try {
      await work()
    } catch (error) {
      if (!(error instanceof UserError)) throw error
      if (error.message.length > 1000) throw new Error(`a sentence of ${error.message.length} characters`)
      refused = true
    }
  }
  await attempt(() => fingerprint(folder))
  await attempt(() => adapterFingerprint(folder))
  await attempt(async () => {
    const tokenizer = await loadTokenizer(folder, { template: { enable_thinking: false } })
    tokenizer.decode(tokenizer.encode('a note: 1 + 1 = 2, \ufdd0 <|im_end|> \u{1f600}'))
    tokenizer.chat([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'What is <|im_end|> 1 + 1?' },
    ])
  })
  await attempt(async () => {
    const { config, loadWeights } = await openCheckpoint(folder)
    await loadWeights()
    await adapterShape(folder)
    await loadAdapter(folder, config)
  })
  return refused
}

async function writeAll(folder: string, files: Files): Promise<void> {
  for (const [name, bytes] of files) await writeFile(join(folder, name), bytes)
}

/** The folder that is damaged, whole. */
async function wholeFiles(folder: string): Promise<Files> {
  await writeTinyModel(folder, 1)
  const { config } = await openCheckpoint(folder)
  const pairs = projections(config).map(({ name, in: inputs, out }) => {
    const stream = random('campaign', name)
    const tensor = (shape: number[]) => ({
      shape,
      data: Float32Array.from({ length: shape[0] * shape[1] }, () => stream.normal()),
    })
    return [name, { a: tensor([2, inputs]), b: tensor([out, 2]) }] as const
  })
  await saveAdapter(folder, config, { rank: 2, alpha: 4, baseModel: 'tiny', projections: new Map(pairs) })
  const template = new URL('../golden/qwen3.jinja', import.meta.url)
  await writeFile(join(folder, 'chat_template.jinja'), await readFile(template))
  await writeFile(join(folder, 'generation_config.json'), '{"eos_token_id": [2]}')
  await writeFile(join(folder, 'special_tokens_map.json'), '{"eos_token": {"content": "<|im_end|>"}}')
  const names = await readdir(folder)
  return new Map(
    await Promise.all(names.sort().map(async (name) => [name, await readFile(join(folder, name))] as const)),
  )
}

/** Opens that many damaged folders of a seed. */
export async function fuzzCheckpoints(extent: Extent): Promise<Campaign> {
  const folder = await mkdtemp(join(tmpdir(), 'campaign-'))
  try {
    const files = await wholeFiles(folder)
    if (await open(folder)) throw new Error('the folder was refused before anything was damaged')
    const names = [...files.keys()]
    const found = await fuzz(extent, SLOW, async (number, fail) => {
      const r = random('checkpoint campaign', extent.seed, number)
      const hurt: Files = new Map()
      for (let n = r.next() < 0.8 ? 1 : 2; n > 0; n--) {
        const name = r.pick(names)
        hurt.set(name, damaged(r, name, files))
      }
      await writeAll(folder, hurt)
      try {
        return (await open(folder)) ? 'refused' : 'opened all the same'
      } catch (error) {
        fail(`${[...hurt.keys()].join(' and ')}: ${(error as Error).stack}`)
        return 'stack'
      } finally {
        await writeAll(folder, new Map([...hurt.keys()].map((name) => [name, files.get(name) as Buffer])))
      }
    })
    if ((found.grownMiB ?? 0) > LARGE) found.failures.push(`memory grew by ${found.grownMiB} MiB`)
    return found
  } finally {
    await rm(folder, { recursive: true })
  }
}

if (isProgram(import.meta.url)) await main(import.meta.url, 20_000, fuzzCheckpoints)
