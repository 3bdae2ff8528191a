import { afterEach, describe, expect, it } from 'vitest'
import { UserError } from '../errors.ts'
import { answerCalls, type Method, remote } from './remote.ts'

interface Methods {
  count: Method<number, string, number>
  wait: Method<null, never>
  fail: Method<boolean, never>
  bytes: Method<number, Uint8Array>
}

const methods: Methods = {
  async count(to, tell) {
    for (let i = 1; i <= to; i++) tell(i)
    return `${to} counted`
  },
  wait: (_, __, signal) =>
    new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped')))),
  fail: async (forUser) => {
    throw forUser ? new UserError('Give a number.') : new TypeError('x is undefined')
  },
  bytes: async (n) => new Uint8Array(n).fill(7),
}

let channel: MessageChannel
function connected() {
  channel = new MessageChannel()
  channel.port1.start()
  channel.port2.start()
  answerCalls(channel.port1, methods)
  return remote<Methods>(channel.port2)
}
afterEach(() => channel.port1.close())

describe('a call to the other side', () => {
  it('gives the result, and before it what was told, in order', async () => {
    const heard: number[] = []
    expect(await connected().count(3, { tell: (n) => heard.push(n) })).toBe('3 counted')
    expect(heard).toEqual([1, 2, 3])
  })

  it('keeps calls apart that are under way together', async () => {
    const there = connected()
    const heard: Record<string, number[]> = { a: [], b: [] }
    const both = await Promise.all([
      there.count(2, { tell: (n) => heard.a.push(n) }),
      there.count(4, { tell: (n) => heard.b.push(n) }),
    ])
    expect(both).toEqual(['2 counted', '4 counted'])
    expect(heard).toEqual({ a: [1, 2], b: [1, 2, 3, 4] })
  })

  it('can be stopped', async () => {
    const stop = new AbortController()
    const waiting = connected().wait(null, { signal: stop.signal })
    stop.abort()
    await expect(waiting).rejects.toThrow('stopped')
  })

  it('fails as it failed there: for a person, or as a defect', async () => {
    const there = connected()
    await expect(there.fail(true)).rejects.toBeInstanceOf(UserError)
    await expect(there.fail(false)).rejects.not.toBeInstanceOf(UserError)
    await expect(there.fail(false)).rejects.toThrow('x is undefined')
  })

  it('carries bytes', async () => {
    expect([...(await connected().bytes(3))]).toEqual([7, 7, 7])
  })
})
