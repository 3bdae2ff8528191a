import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { UserError } from '../errors.ts'
import { random } from '../random.ts'
import { type ProtocolChoices, protocolRecord, resolveProtocol, sightOf } from './protocol.ts'
import { board, debate } from './protocols.ts'
import { chain, everything, named, own, randomOf, ring, type Sight, shared, star } from './sights.ts'
import type { Ref } from './types.ts'

const sizes = { copies: 4, noteTokens: 8, replyTokens: 8 }
const resolve = (choices: ProtocolChoices) => resolveProtocol(choices, sizes)
/** The seats of the round before that each reader of a board sees. */
const laid = (reads: Sight, seats = 4) =>
  protocolRecord(resolve(board({ reads, seats }))).rounds[1].sights.map((refs) =>
    refs!.map(([, seat]) => seat),
  )

describe('sights', () => {
  it('lay out who reads whom', () => {
    expect(laid(own, 3)).toEqual([[0], [1], [2]])
    expect(laid(shared, 2)).toEqual([
      [0, 1],
      [0, 1],
    ])
    expect(laid(ring)).toEqual([
      [0, 1],
      [1, 2],
      [2, 3],
      [3, 0],
    ])
    expect(laid(star)).toEqual([
      [0, 1, 2, 3],
      [0, 1],
      [0, 2],
      [0, 3],
    ])
    expect(laid(chain)).toEqual([[0], [0, 1], [1, 2], [2, 3]])
    expect([own.name, shared.name, randomOf(2).name]).toEqual(['own', 'shared', 'random 2'])
  })

  it('draw random subsets that depend on the stream alone, each post as often', () => {
    const sight = randomOf(2)
    const before = [0, 1, 2, 3]
    const seen = (key: number) => sight(0, 4, { round: 1, before, draw: random(key) }) as number[]
    expect(seen(1)).toEqual(seen(1))
    const counts = [0, 0, 0, 0]
    for (let key = 0; key < 2000; key++) for (const seat of seen(key)) counts[seat]++
    for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(100)
  })

  it('may reach back to any earlier round', () => {
    const protocol = resolve(debate({ turns: 3, sees: everything, seats: 2 }))
    const refs = (round: number) => sightOf(protocol, round, 0, random(0))
    expect(refs(0)).toBe(null)
    expect(refs(1)).toEqual([
      [0, 0],
      [0, 1],
    ])
    expect(refs(2)).toHaveLength(4)
  })

  it.each([
    ['a post twice', () => [0, 0], /different posts/],
    ['a post that is not there', () => [9], /different posts/],
    ['half a post', () => [0.5], /different posts/],
    ['a post of its own round', () => [[1, 0]] as Ref[], /different posts/],
    ['no list', () => 7 as unknown as number[], /no list of posts/],
  ])('refuse a reader that sees %s', (_what, reads: Sight, why: RegExp) => {
    expect(() => laid(reads)).toThrow(UserError)
    expect(() => laid(reads)).toThrow(why)
  })

  it('say which one failed', () => {
    const failing = named('mine', (): number[] => {
      throw new Error('boom')
    })
    expect(() => laid(failing)).toThrow(/sight "mine".*seat 0 of 4 in round 2.*boom/)
  })
})

describe('resolveProtocol', () => {
  it('refuses what cannot be played, by name', () => {
    const note = { name: 'note', tokens: 'note' as const }
    const cases: [Partial<ProtocolChoices>, RegExp][] = [
      [{ seats: 0 }, /has 0 seats/],
      [{ seats: 1e9 }, /give 1 to 256/],
      [{ rounds: [] }, /has 0 rounds/],
      [{ rounds: [{ ...note, speakers: [] }] }, /lets the seats \[\] speak/],
      [{ rounds: [{ ...note, speakers: [2, 1] }] }, /ascending/],
      [{ rounds: [{ ...note, sees: own }] }, /in its first round/],
      [{ rounds: [{ ...note, tokens: 0 }] }, /gives round 1 0 tokens/],
      [{ rounds: [{ ...note, speakers: [0] }], final: { seat: 1 } }, /does not speak last/],
    ]
    for (const [over, why] of cases) {
      expect(() => resolve({ name: 'p', rounds: [note], ...over })).toThrow(why)
    }
  })

  it('is recorded by what it does: two that play alike are equal, and no others', () => {
    const mine = named('shared', (_seat: number, seats: number) => Array.from({ length: seats }, (_, i) => i))
    const record = (reads: Sight) => JSON.stringify(protocolRecord(resolve(board({ reads }))))
    expect(record(mine)).toBe(record(shared))
    expect(record(named('shared', (seat: number) => [seat]))).not.toBe(record(shared))
    const asked = (text: string) =>
      JSON.stringify(
        protocolRecord(
          resolve({
            name: 'p',
            rounds: [{ name: 'n', tokens: 8, prompt: () => [{ role: 'user', content: text }] }],
          }),
        ),
      )
    expect(asked('a')).not.toBe(asked('b'))
    expect(JSON.parse(record(shared))).toEqual(protocolRecord(resolve(board())))
  })

  it('takes any number of seats and rounds within its bounds', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 16 }), fc.integer({ min: 1, max: 6 }), (seats, turns) => {
        const protocol = resolve(debate({ turns, seats }))
        expect(protocol.rounds).toHaveLength(turns)
        for (const { speakers } of protocol.rounds) expect(speakers).toHaveLength(seats)
      }),
      { numRuns: 20 },
    )
  })
})
