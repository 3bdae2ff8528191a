import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import * as api from './index.ts'

const page = readFileSync(new URL('../docs/api.md', import.meta.url), 'utf8')

/** The value of an expression that may use the whole API. */
const evaluate = (expression: string): unknown =>
  new Function(...Object.keys(api), `return (${expression})`)(...Object.values(api))

describe('docs/api.md', () => {
  it('names everything that the package exports', () => {
    const named = new Set([...page.matchAll(/`(\w+)`/g)].map(([, name]) => name))
    expect(Object.keys(api).filter((name) => !named.has(name))).toEqual([])
  })

  const examples = [...page.matchAll(/^(.+?) \/\/ => (.+)$/gm)]
  it.each(examples.map(([, code, value]) => ({ code, value })))('$code', ({ code, value }) => {
    expect(evaluate(code)).toEqual(evaluate(value))
  })

  it('has examples', () => {
    expect(examples.length).toBeGreaterThan(20)
  })
})
