import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Engine, Policy, SampleRequest } from '../engine/contract.ts'
import { openOnnxEngine } from '../engine/onnx/index.ts'
import { mathGrader } from '../grade/grader.ts'
import { writeTinyModel } from '../selftest/tiny-model.ts'
import { readPrompt } from './prompts.ts'
import { own, shared } from './reads.ts'
import { type Ask, playRounds, playWith, policyWriter, type RoundsOptions } from './rounds.ts'

const problems = ['a', 'b', 'c'].map((id) => ({ id, question: `What is ${id}?`, gold: '1' }))
const options: RoundsOptions = {
  copies: 4,
  reads: shared,
  notes: { maxTokens: 12, temperature: 0.9, topP: 0.95 },
  replies: { maxTokens: 16, temperature: 0.9, topP: 1 },
  readTokens: 480,
  grader: mathGrader,
  seed: [17, 'test'],
}

let folder: string
let engine: Engine
let policy: Policy

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rounds-'))
  await writeTinyModel(folder, 1)
  engine = await openOnnxEngine({ model: folder })
  policy = await engine.createPolicy()
})

afterAll(async () => {
  await engine.close()
  await rm(folder, { recursive: true })
})

/** The policy, with a record of what was asked of it. */
function recorded(): { policy: Policy; rounds: SampleRequest[][] } {
  const rounds: SampleRequest[][] = []
  const sample: Policy['sample'] = (requests, how) => {
    rounds.push([...requests])
    return policy.sample(requests, how)
  }
  return { policy: { ...policy, sample }, rounds }
}

describe('playRounds', () => {
  it('gives each problem four notes and four replies that read the notes of their board', async () => {
    const { played } = await playRounds(policy, engine.tokenizer, problems, options)
    expect(played.map(({ board }) => board.problemId)).toEqual(['a', 'b', 'c'])
    for (const { board, replies } of played) {
      expect(board.notes).toHaveLength(4)
      expect(board.replies.map((reply) => reply.reads)).toEqual(Array(4).fill([0, 1, 2, 3]))
      for (const [copy, { prompt, completion, logprobs }] of replies.entries()) {
        expect(engine.tokenizer.decode(prompt)).toContain(`Note 4: ${board.notes[3].text}`)
        expect(logprobs).toHaveLength(completion.length)
        expect(board.replies[copy].tokens).toBe(completion.length)
        expect(board.replies[copy].cut).toBe(!engine.tokenizer.stop.includes(completion.at(-1)!))
      }
    }
  })

  it('computes a shared prompt once a problem, and a prompt of its own once a reader', async () => {
    const together = recorded()
    await playRounds(together.policy, engine.tokenizer, problems, options)
    expect(together.rounds.map((requests) => requests.map(({ n }) => n))).toEqual([
      [4, 4, 4],
      [4, 4, 4],
    ])
    const alone = recorded()
    await playRounds(alone.policy, engine.tokenizer, problems, { ...options, reads: own })
    expect(alone.rounds.map((requests) => requests.map(({ n }) => n))).toEqual([[4, 4, 4], Array(12).fill(1)])
    // Both arms draw the same four notes.
    expect(alone.rounds[0]).toEqual(together.rounds[0])
  })

  it('depends on the seed alone: not on the problems beside, and not on an earlier call', async () => {
    const all = await playRounds(policy, engine.tokenizer, problems, options)
    const one = await playRounds(policy, engine.tokenizer, problems.slice(1, 2), options)
    expect(one.played[0].board).toEqual(all.played[1].board)
    const other = await playRounds(policy, engine.tokenizer, problems, { ...options, seed: [18, 'test'] })
    expect(other.played[1].board).not.toEqual(all.played[1].board)
  })

  it('shortens the longest notes until the prompt fits, and says when even the question does not', async () => {
    const blank = engine.tokenizer.chat(readPrompt('What is a?', ['', '', '', ''])).length
    const readTokens = blank + 10
    const { played } = await playRounds(policy, engine.tokenizer, problems, { ...options, readTokens })
    for (const { replies } of played) {
      for (const { prompt } of replies) expect(prompt.length).toBeLessThanOrEqual(readTokens)
    }
    await expect(
      playRounds(policy, engine.tokenizer, problems, { ...options, readTokens: blank - 1 }),
    ).rejects.toThrow(/raise board.readTokens/)
  })
})

describe('a thought', () => {
  it('is neither graded nor read: what follows it is', async () => {
    const asked: Ask[] = []
    const says = (text: string) => ({ text, tokens: 9, cut: false, trace: null })
    const texts = [
      '<think>\\boxed{1}</think>\n\\boxed{2}',
      '<think>\\boxed{2}</think>\\boxed{1}',
      '<think>so \\boxed{1}',
    ]
    const { played } = await playWith(
      async (asks) => {
        asked.push(...asks)
        return asks.map(({ n }) => Array.from({ length: n }, (_, i) => says(texts[i])))
      },
      problems.slice(0, 1),
      { ...options, copies: 3 },
    )
    const [{ board }] = played
    expect(board.notes.map(({ text }) => text)).toEqual(['\\boxed{2}', '\\boxed{1}', ''])
    expect(board.replies.map(({ answer, correct }) => [answer, correct])).toEqual([
      ['2', false],
      ['1', true],
      [null, false],
    ])
    expect(asked.at(-1)?.notes).toEqual(['\\boxed{2}', '\\boxed{1}', ''])
  })

  it('that the prompt opened is a thought from the first token on', async () => {
    const tokenizer = { ...engine.tokenizer, opensThought: true }
    const write = policyWriter(policy, tokenizer, { readTokens: 480 })
    const ask = { problem: problems[0], notes: null, n: 1, seed: 5 }
    const [[thinking]] = await write([ask], options.notes)
    const [[plain]] = await policyWriter(policy, engine.tokenizer, { readTokens: 480 })([ask], options.notes)
    expect(thinking).toEqual({ ...plain, text: `<think>${plain.text}` })
  })
})
