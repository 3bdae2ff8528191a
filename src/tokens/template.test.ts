import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { UserError } from '../errors.ts'
import { openTemplate } from './template.ts'

const render = (source: string, variables: Record<string, unknown> = {}) =>
  openTemplate(source, 'the model').render({ messages: [], add_generation_prompt: true, ...variables })

test('what a chat does not have is none', () => {
  expect(render('{{ tools is none }} {{ documents is none }} {{ enable_thinking is defined }}')).toBe(
    'true true false',
  )
  expect(render('{{ enable_thinking is false }}', { enable_thinking: false })).toBe('true')
})

test('range is as in Python', () => {
  expect(render('{{ range(3) | tojson }} {{ range(5, 1, -2) | tojson }} {{ range(4, 1) | tojson }}')).toBe(
    '[0, 1, 2] [5, 3] []',
  )
})

test('a long chat takes no more than it may', () => {
  const messages = Array.from({ length: 200 }, (_, i) => ({
    role: i % 2 === 0 ? 'user' : 'assistant',
    content: 'x'.repeat(2000),
  }))
  const qwen3 = readFileSync(new URL('../../test/golden/qwen3.jinja', import.meta.url), 'utf8')
  expect(render(qwen3, { messages }).length).toBeGreaterThan(400_000)
})

describe('refuses', () => {
  test.each<[string, string, RegExp]>([
    [
      'what it does not know though Jinja does',
      '{% include "x" %}',
      /'include', which is valid Jinja and not supp/,
    ],
    [
      'a part left as it stands',
      '{% raw %}{{ x }}{% endraw %}',
      /'raw', which is valid Jinja and not supported/,
    ],
    ['a filter', '{{ "a b" | wordcount }}', /the filter 'wordcount', which is valid Jinja and not supported/],
    ['a filter with arguments', '{{ [1, 2] | batch(2) }}', /the filter 'batch', which is valid Jinja/],
    ['a test', '{{ 4 is ge }}', /the test 'ge', which is valid Jinja and not supported/],
    ['a method', '{{ "abc".find("b") }}', /cannot be rendered .* it may be valid Jinja/],
    [
      'a filter that nobody knows',
      '{{ "a" | frobnicate }}',
      /fails on this chat \(Unknown StringValue filter/,
    ],
    [
      'a statement that nobody knows',
      '{% frobnicate %}',
      /cannot be read \(Unknown statement type: frobnicate\)/,
    ],
    ['a block that is left open', '{% if true %}yes', /is broken: it ends within/],
    ['a text that is left open', '{{ "yes }}', /is broken: it ends within/],
    ['an expression that is none', '{{ 1 + }}', /cannot be read/],
    ['nesting without end', `{{ ${'('.repeat(100_000)} }}`, /cannot be read|takes more/],
  ])('%s', (_, source, message) => {
    expect(() => render(source)).toThrow(UserError)
    expect(() => render(source)).toThrow(message)
  })

  test.each<[string, string, RegExp]>([
    [
      'a loop over a billion',
      '{% for i in range(1000000000) %}x{% endfor %}',
      /a range of 1000000000 numbers/,
    ],
    [
      'a loop in a loop in a loop',
      '{% for a in range(999) %}{% for b in range(999) %}{% for c in range(999) %}x{% endfor %}{% endfor %}{% endfor %}',
      /more than 500000 steps/,
    ],
    [
      'a text that doubles',
      `{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}`,
      /a value of \d+ characters/,
    ],
    [
      'a list that holds itself twice, and so on',
      `{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}`,
      /takes more than it may/,
    ],
    [
      'namespaces within namespaces',
      '{% set a = namespace() %}{% set b = namespace() %}{% set a.x = b %}{% set b.x = a %}{{ a | tojson }}',
      /a namespace within another/,
    ],
    [
      'a namespace within a list',
      '{% set a = namespace() %}{{ [a, a] | tojson }}',
      /a namespace within a value/,
    ],
    ['a macro that calls itself', '{% macro f(g) %}{{ g(g) }}{% endmacro %}{{ f(f) }}', /no end|steps/],
    [
      'a text replaced by long ones',
      "{{ ('a,' | replace('a', 'b')).replace('', x).replace('', x) }}",
      /no end|value of/,
    ],
    ['a long source', 'x'.repeat(300_000), /has 300000 characters/],
    ['blanks without end', `{{ 1 }}${' '.repeat(5000)}`, /more than 4096 blanks/],
    // By count, not by the clock: each message is of a bound that was reached. One that is not fails by its timeout.
  ])('%s', { timeout: 60_000 }, (_, source, message) => {
    expect(() => render(source, { x: 'x'.repeat(1_000_000) })).toThrow(message)
  })
})
