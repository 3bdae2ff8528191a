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

  const programs = [...page.matchAll(/<!-- runs -->\n```ts\n(.*?)```/gs)].map(([, code]) => code)
  it.each(programs)('has a program that runs: %s', async (code) => {
    const said: unknown[][] = []
    const scope = { ...api, console: { log: (...what: unknown[]) => said.push(what) } }
    const AsyncFunction = (async () => {}).constructor as FunctionConstructor
    await new AsyncFunction(...Object.keys(scope), code)(...Object.values(scope))
    expect(said.map(([step]) => step)).toEqual([1, 2])
    for (const [, reward, text, credit] of said) {
      expect([typeof reward, typeof text, typeof credit]).toEqual(['number', 'string', 'number'])
    }
  })

  it('has examples and a program', () => {
    expect(programs).toHaveLength(1)
    expect(examples.length).toBeGreaterThan(20)
  })
})
