/** Every rule held to exact values on tables that can be enumerated, and one set of cases that all of them must pass. */
import { describe, expect, it } from 'vitest'
import type { Played } from '../../board/play.ts'
import type { Rollout } from '../../board/policy-writer.ts'
import { type Protocol, type ProtocolChoices, resolveProtocol } from '../../board/protocol.ts'
import { named, own, type Sight, shared } from '../../board/sights.ts'
import type { Ref } from '../../board/types.ts'
import { groupsOf, policyBatch } from '../grpo.ts'
import { playTable, prompt, type TableWorld } from '../testing/table-world.ts'
import { type Credit, leaveOneOut, mix, ownAnswer, readersOf, readersOnly, subsets, team } from './index.ts'
import type { Tools } from './types.ts'

const rules: Record<string, () => Credit> = {
  readersOnly,
  ownAnswer,
  team,
  readersOf,
  subsets,
  'leaveOneOut replay': () => leaveOneOut({ by: 'replay' }),
  'leaveOneOut rescore': () => leaveOneOut({ by: 'rescore' }),
  mix: () => mix([1, leaveOneOut()], [0.5, ownAnswer()]),
}

/** Three writers; the first `readers` seats read. */
function threeWriters(readers: number, sees: Sight = shared): Protocol {
  const choices: ProtocolChoices = {
    name: 'three writers',
    seats: Math.max(3, readers),
    rounds: [
      { name: 'note', speakers: [0, 1, 2], tokens: 1, prompt },
      { name: 'reply', speakers: Array.from({ length: readers }, (_, i) => i), sees, tokens: 1, prompt },
    ],
  }
  return resolveProtocol(choices, { copies: 3, noteTokens: 1, replyTokens: 1 })
}

/** Two G's together do most of the work: neither notes nor readers are additive. */
const right = (notes: readonly string[]): number => {
  const good = notes.filter((note) => note === 'G').length
  return 0.1 + 0.1 * good + (good >= 2 ? 0.4 : 0) - 0.02 * (notes.length - good)
}
const fixed: TableWorld = { good: (seat) => (seat < 2 ? 1 : 0), right }
const drawn: TableWorld = { good: () => 0.5, right }

const rewards = ({ episode }: Played<Rollout>) => episode.rounds[1].map(({ correct }) => Number(correct))

/** Mean over many boards of each note's credit. */
async function meanCredit(rule: Credit, world: TableWorld, protocol: Protocol, boards: number) {
  const training = rule.inTraining?.(protocol) ?? protocol
  const { played, tools } = await playTable(world, training, 1, boards)
  const { credits } = await rule.assign(played, tools)
  return [0, 1, 2].map((note) => credits.reduce((sum, credit) => sum + credit[0][note]!, 0) / boards)
}

/** What is lost without each of the notes GGB. */
const lost = ['GB', 'GB', 'GG'].map((rest) => right(['G', 'G', 'B']) - right([...rest]))

describe('leave-one-out', () => {
  it('by replay is exact in expectation', async () => {
    const found = await meanCredit(leaveOneOut({ by: 'replay' }), fixed, threeWriters(3), 4000)
    // 12,000 paired answers: a standard error of at most 0.006.
    found.forEach((credit, note) => {
      expect(Math.abs(credit - lost[note])).toBeLessThan(0.02)
    })
  })

  it('by re-scoring agrees with it where many replies stand for the board', async () => {
    const found = await meanCredit(leaveOneOut({ by: 'rescore' }), fixed, threeWriters(200), 60)
    found.forEach((credit, note) => {
      expect(Math.abs(credit - lost[note])).toBeLessThan(0.02)
    })
  })

  it('by re-scoring is its own formula on one board', async () => {
    const protocol = threeWriters(4)
    const { played, tools } = await playTable(fixed, protocol, 5)
    const { credits, effective } = await leaveOneOut({ by: 'rescore' }).assign(played, tools)
    const r = rewards(played[0])
    const weights = r.map((reward) =>
      reward === 1
        ? right(['G', 'B']) / right(['G', 'G', 'B'])
        : (1 - right(['G', 'B'])) / (1 - right(['G', 'G', 'B'])),
    )
    const total = weights.reduce((sum, w) => sum + w, 0)
    const without = weights.reduce((sum, w, i) => sum + w * r[i], 0) / total
    const mean = r.reduce((sum, reward) => sum + reward, 0) / r.length
    expect(credits[0][0][0]).toBeCloseTo(mean - without, 5)
    expect(effective![0]).toBeCloseTo(total ** 2 / weights.reduce((sum, w) => sum + w ** 2, 0), 5)
    expect(credits[0][1]).toEqual(r)
  })

  it('pays nothing on an estimate that stands on too few replies', async () => {
    const { played, tools } = await playTable(drawn, threeWriters(4), 3, 20)
    const { credits, effective } = await leaveOneOut({ by: 'rescore', floor: 3.9 }).assign(played, tools)
    const agree = played.map((one) => new Set(rewards(one)).size === 1)
    const paid = credits.flatMap(([notes], board) => (agree[board] ? [] : notes))
    effective!.forEach((size, i) => {
      expect(paid[i] === null).toBe(size < 3.9)
    })
    expect(paid).toHaveLength(effective!.length)
    expect(paid).toContain(null)
  })

  it('scores nothing where all readers are right or all are wrong: a note earns 0 there, whatever the weights', async () => {
    const { played, tools } = await playTable(drawn, threeWriters(3), 3, 40)
    const asked: Ref[] = []
    const rescore: Tools['rescore'] = (asks) => {
      asked.push(...asks.map(({ played }): Ref => [played.board, rewards(played).reduce((a, b) => a + b, 0)]))
      return tools.rescore(asks)
    }
    const { credits } = await leaveOneOut({ by: 'rescore' }).assign(played, { ...tools, rescore })
    const agree = played.map((one) => new Set(rewards(one)).size === 1)
    expect(new Set(agree)).toEqual(new Set([true, false]))
    expect(new Set(asked.map(([, right]) => right))).toEqual(new Set([1, 2]))
    expect(asked).toHaveLength(9 * agree.filter((one) => !one).length)
    played.forEach((_, board) => {
      if (agree[board]) expect(credits[board][0]).toEqual([0, 0, 0])
    })
  })

  it('goes through posts that saw the note, in any number of rounds', async () => {
    // Round 2 reads the note; round 3 reads round 2 alone.
    const through = resolveProtocol(
      {
        name: 'through',
        seats: 1,
        rounds: [
          { name: 'a', tokens: 1, prompt },
          { name: 'b', sees: own, tokens: 1, prompt },
          { name: 'c', sees: own, tokens: 1, prompt },
        ],
      },
      { copies: 1, noteTokens: 1, replyTokens: 1 },
    )
    const world: TableWorld = { good: () => 1, right: ([note]) => (note === 'G' ? 0.9 : 0.2) }
    const { played, tools } = await playTable(world, through, 1, 6000)
    const { credits } = await leaveOneOut({ by: 'replay' }).assign(played, tools)
    const mean = credits.reduce((sum, credit) => sum + credit[0][0]!, 0) / credits.length
    // With the note 0.9 x 0.9 + 0.1 x 0.2; without, the middle is right by 0.2.
    expect(Math.abs(mean - (0.83 - (0.2 * 0.9 + 0.8 * 0.2)))).toBeLessThan(0.02)
  })
})

describe('subsets', () => {
  it('estimate the Shapley value without bias', async () => {
    const notes = ['G', 'G', 'B']
    const value = (members: readonly number[]) => right(members.map((i) => notes[i]))
    const orders = [
      [0, 1, 2],
      [0, 2, 1],
      [1, 0, 2],
      [1, 2, 0],
      [2, 0, 1],
      [2, 1, 0],
    ]
    const shapley = [0, 1, 2].map((note) => {
      const gains = orders.map((order) => {
        const before = order.slice(0, order.indexOf(note)).sort()
        return value([...before, note].sort()) - value(before)
      })
      return gains.reduce((sum, gain) => sum + gain, 0) / orders.length
    })
    const found = await meanCredit(subsets(), fixed, threeWriters(4), 8000)
    found.forEach((credit, note) => {
      expect(Math.abs(credit - shapley[note])).toBeLessThan(0.03)
    })
  })

  it('change what is seen in training alone', () => {
    const protocol = threeWriters(4)
    const training = subsets().inTraining!(protocol)
    expect(training.rounds[1].sees!.name).toBe('subsets')
    expect(training.rounds[0]).toBe(protocol.rounds[0])
    expect(protocol.rounds[1].sees).toBe(shared)
  })
})

describe('plain rules', () => {
  it('pay a note its own answer, its readers, or its team', async () => {
    const { played, tools } = await playTable(drawn, threeWriters(3, own), 2, 5)
    const each = async (rule: Credit) => (await rule.assign(played, tools)).credits
    const [ownAnswers, readers, teams] = [
      await each(ownAnswer()),
      await each(readersOf()),
      await each(team()),
    ]
    played.forEach((one, p) => {
      const r = rewards(one)
      expect(ownAnswers[p][0]).toEqual(one.episode.rounds[0].map(({ correct }) => Number(correct)))
      // Each note has one reader: its own writer.
      expect(readers[p][0]).toEqual(r)
      expect(teams[p][0]).toEqual(r.map(() => r.reduce((sum, reward) => sum + reward, 0) / 3))
    })
  })

  it('add up in a mix, and final posts earn once', async () => {
    const { played, tools } = await playTable(drawn, threeWriters(3), 2, 5)
    const a = (await ownAnswer().assign(played, tools)).credits
    const b = (await team().assign(played, tools)).credits
    const { credits } = await mix([2, ownAnswer()], [0.5, team()], [1, readersOnly()]).assign(played, tools)
    credits.forEach((credit, p) => {
      expect(credit[0]).toEqual(a[p][0].map((paid, i) => 2 * paid! + 0.5 * b[p][0][i]!))
      expect(credit[1]).toEqual(rewards(played[p]))
    })
    const context = mix([1, readersOnly()])
    expect(context.paysNotes).toBe(false)
    expect((await context.assign(played, tools)).credits[0][0]).toEqual([null, null, null])
  })
})

describe.each(Object.entries(rules))('%s', (_name, rule) => {
  const unread = named('unread', () => [0, 1])

  it('pays final posts their own correctness, and every post a number or nothing', async () => {
    const credit = rule()
    const protocol = credit.inTraining?.(threeWriters(4)) ?? threeWriters(4)
    const { played, tools } = await playTable(drawn, protocol, 7, 6)
    const { credits } = await credit.assign(played, tools)
    expect(credits).toHaveLength(6)
    credits.forEach((each, p) => {
      expect(each[1]).toEqual(rewards(played[p]))
      expect(each[0]).toHaveLength(3)
      for (const paid of each[0]) expect(paid === null || Number.isFinite(paid)).toBe(true)
      if (!credit.paysNotes) expect(each[0]).toEqual([null, null, null])
    })
  })

  it('is the same twice, and is recorded as plain data', async () => {
    const once = async () => {
      const { played, tools } = await playTable(
        drawn,
        rule().inTraining?.(threeWriters(4)) ?? threeWriters(4),
        7,
        3,
      )
      return rule().assign(played, tools)
    }
    expect(await once()).toEqual(await once())
    expect(JSON.parse(JSON.stringify(rule().config))).toEqual(rule().config)
  })

  it('pays a note that nobody was shown nothing for its readers', async () => {
    const credit = rule()
    if (credit.inTraining || ['ownAnswer', 'team'].includes(credit.name) || credit.name.startsWith('mix'))
      return
    const { played, tools } = await playTable(drawn, threeWriters(4, unread), 7, 4)
    const { credits } = await credit.assign(played, tools)
    for (const [notes] of credits) expect(notes[2]).toBe(null)
  })

  it('gives the readers’ round the batch of readers alone, bit for bit', async () => {
    const credit = rule()
    const protocol = threeWriters(4)
    const { played, tools } = await playTable(drawn, protocol, 11, 1)
    const batch = async (its: Credit) => {
      const { credits } = await its.assign(played, tools)
      return policyBatch(groupsOf(protocol, played, credits).filter(({ round }) => round === 1))
    }
    expect(await batch(credit)).toEqual(await batch(readersOnly()))
  })
})
