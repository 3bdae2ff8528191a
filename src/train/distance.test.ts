import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { resolveProtocol, sharedPolicy } from '../board/protocol.ts'
import { alone } from '../board/protocols.ts'
import { distanceFromStart, entropyOf, isMeasured, k3, type Learner } from './distance.ts'
import { playTable, prompt, type TableWorld, tableAuthor } from './testing/table-world.ts'

/** A world whose writers post G with one probability, so that entropy and distance are known. */
const world = (chance: number): TableWorld => ({ good: () => chance, right: () => chance })
const choices = { ...alone({ seats: 64 }), rounds: [{ name: 'reply', tokens: 1, prompt }] }
const protocol = resolveProtocol(choices, { copies: 64, noteTokens: 1, replyTokens: 1 })
const entropy = (p: number) => -p * Math.log(p) - (1 - p) * Math.log(1 - p)
const kl = (p: number, q: number) => p * Math.log(p / q) + (1 - p) * Math.log((1 - p) / (1 - q))

/** Boards of 64 seats drawn with chance p, and the distance to a start of chance q. */
async function measured(p: number, q: number) {
  const { played } = await playTable(world(p), protocol, 7, 64)
  const learner: Learner = { ...tableAuthor(world(p)), trained: true, start: tableAuthor(world(q)).policy }
  const authors = new Map([[sharedPolicy, learner]])
  return { played, distance: await distanceFromStart(played, { protocol, authors, temperature: 1 }) }
}

describe('entropy and distance of a world where they are known', () => {
  it('estimates both, the distance from a quarter of the boards', async () => {
    const { played, distance } = await measured(0.7, 0.5)
    // 4,096 tokens, and 1,024: three standard errors.
    expect(Math.abs(entropyOf(played, () => true)! - entropy(0.7))).toBeLessThan(0.02)
    expect(Math.abs(distance! - kl(0.7, 0.5))).toBeLessThan(0.02)
    // But for single precision.
    expect((await measured(0.7, 0.7)).distance).toBeLessThan(1e-12)
  })

  it('counts the posts that are asked for, and tells nothing of what is not known', async () => {
    const { played } = await measured(0.7, 0.5)
    expect(entropyOf(played, () => false)).toBe(null)
    const [board] = played
    const own = board.traces[0][3].logprobs[0]
    expect(entropyOf([board], (round, seat) => round === 0 && seat === 3)).toBe(-own)
    const unknown = {
      ...board,
      traces: [board.traces[0].map((trace) => ({ ...trace, logprobs: [Number.NaN] }))],
    }
    expect(entropyOf([unknown], () => true)).toBe(null)
    const author = tableAuthor(world(0.7))
    const ask = (learner: Learner) =>
      distanceFromStart(played, { protocol, authors: new Map([[sharedPolicy, learner]]), temperature: 1 })
    expect(await ask({ ...author, trained: true })).toBe(null)
    expect(await ask({ ...author, trained: false, start: author.policy })).toBe(null)
  })
})

it('is never negative, and near 0 it is half the square', () => {
  fc.assert(fc.property(fc.double({ min: -20, max: 20, noNaN: true }), (d) => k3(d) >= 0))
  expect(k3(1e-4) / (1e-8 / 2)).toBeCloseTo(1, 3)
})

it('measures each fifth step and the last', () => {
  const steps = Array.from({ length: 12 }, (_, i) => i + 1)
  expect(steps.filter((step) => isMeasured(step, 12))).toEqual([5, 10, 12])
})
