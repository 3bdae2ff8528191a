import { describe, expect, it } from 'vitest'
import { random } from '../../src/random.ts'
import { hostileHubs } from './hostile-hub.ts'
import { changed } from './hostile-proxy.ts'
import { hostileServers } from './hostile-server.ts'

describe('a hostile campaign, cut short', () => {
  it.each([
    ['servers', hostileServers, ['endpoint: fine', 'tinker: fine', 'endpoint: refused', 'tinker: refused']],
    ['hubs', hostileHubs, ['fine', 'refused']],
  ] as const)(
    'of %s finds nothing',
    async (_, campaign, kinds) => {
      const { outcomes, grownMiB, failures } = await campaign({ seed: 1, rounds: 20 })
      expect(failures).toEqual([])
      expect(Object.keys(outcomes)).toEqual(expect.arrayContaining([...kinds]))
      expect(grownMiB).toBeLessThan(1024)
    },
    300_000,
  )

  it('changes an answer by its seed', () => {
    const right = { choices: [{ message: { content: 'a' } }], usage: { prompt_tokens: 3 } }
    const some = (seed: number) => JSON.stringify(changed(right, random('changed', seed)))
    expect(some(1)).toBe(some(1))
    const all = new Set(Array.from({ length: 50 }, (_, seed) => some(seed)))
    expect(all.size).toBeGreaterThan(25)
    expect(JSON.stringify(right)).toContain('"prompt_tokens":3')
  })
})
