import { describe, expect, it } from 'vitest'
import { type Ask, play } from '../board/play.ts'
import { type Prompt, type ProtocolChoices, protocolRecord, resolveProtocol } from '../board/protocol.ts'
import { board, debate, proposers } from '../board/protocols.ts'
import { ring, shared } from '../board/sights.ts'
import { mathGrader } from '../grade/grader.ts'
import { protocolSchema } from '../record/schema.ts'
import type { ChatMessage } from '../tokens/chat.ts'
import { isKnownPrompt, promptOf } from './prompt.ts'

const sampling = { temperature: 1, topP: 1, maxTokens: 9 }
const problem = { id: 'p', question: 'What is 2 + 3?', gold: '5', parts: ['It is odd.', 'It is small.'] }

/** Plays a board and keeps each chat that was asked. */
async function played(choices: ProtocolChoices) {
  const protocol = resolveProtocol(choices, { copies: 4, noteTokens: 9, replyTokens: 9 })
  const asked = new Map<string, ChatMessage[]>()
  let count = 0
  const { played } = await play(
    async (asks: readonly Ask[]) =>
      asks.map((ask) =>
        ask.seeds.map(() => {
          const text = `text ${++count} \\boxed{${count}}`
          asked.set(text, ask.prompt(ask.seen))
          return { text, tokens: 3, cut: false, trace: null }
        }),
      ),
    [{ problem }],
    { protocol, sampling: protocol.rounds.map(() => sampling), grader: mathGrader, seed: [1] },
  )
  // As a folder has it.
  const record = protocolSchema.parse(JSON.parse(JSON.stringify(protocolRecord(protocol))))
  return { record, rounds: played[0].episode.rounds, asked }
}

describe('a prompt built from the record', () => {
  it.each([
    ['a board that all read', board({ reads: shared })],
    ['a ring', board({ reads: ring })],
    ['a debate of three turns', debate()],
    ['proposers and an aggregator', proposers()],
  ])('is the chat that was asked: %s', async (_, choices) => {
    const { record, rounds, asked } = await played(choices)
    expect(asked.size).toBe(rounds.flat().length)
    for (const [r, posts] of rounds.entries()) {
      for (const { seat, text } of posts) {
        expect(promptOf(record, problem, rounds, [r, seat])).toEqual(asked.get(text))
      }
    }
  })

  it('is not made up where the experiment has its own', async () => {
    const own: Prompt = ({ question }) => [{ role: 'user', content: `Think hard. ${question}` }]
    const [notes, replies] = board({ reads: shared }).rounds
    const { record, rounds } = await played({ name: 'own', rounds: [{ ...notes, prompt: own }, replies] })
    expect([0, 1].map((round) => isKnownPrompt(record, round))).toEqual([false, true])
    expect(promptOf(record, problem, rounds, [0, 2])).toBe(null)
    expect(promptOf(record, problem, rounds, [1, 2])?.[0].content).toContain('Note 4: text 4')
  })
})
