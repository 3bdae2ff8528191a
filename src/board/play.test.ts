import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Engine, Policy, SampleRequest } from '../engine/contract.ts'
import { openOnnxEngine } from '../engine/onnx/index.ts'
import { mathGrader } from '../grade/grader.ts'
import { writeTinyModel } from '../selftest/tiny-model.ts'
import type { Problem } from '../tasks/types.ts'
import { type Ask, type PlayOptions, play, type Table, type Writer } from './play.ts'
import { policyWriter, type Rollout } from './policy-writer.ts'
import { readPrompt } from './prompts.ts'
import { type ProtocolChoices, resolveProtocol, sharedPolicy } from './protocol.ts'
import { board, debate, proposers, revisers } from './protocols.ts'
import { own, randomOf, shared } from './sights.ts'

const problems: Problem[] = ['a', 'b', 'c'].map((id) => ({ id, question: `What is ${id}?`, gold: '1' }))
const sizes = { copies: 4, noteTokens: 12, replyTokens: 16 }

let folder: string
let engine: Engine
let policy: Policy

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'play-'))
  await writeTinyModel(folder, 1)
  engine = await openOnnxEngine({ model: folder })
  policy = await engine.createPolicy()
})
afterAll(async () => {
  await engine.close()
  await rm(folder, { recursive: true })
})

/** Plays a protocol, and tells what was asked of the policy: the requests of each round. */
async function played(
  choices: ProtocolChoices,
  over: {
    problems?: readonly Problem[]
    tables?: readonly Table<Rollout>[]
    seed?: PlayOptions['seed']
    readTokens?: number
  } = {},
) {
  const asked: SampleRequest[][] = []
  const sample: Policy['sample'] = (requests, how) => {
    asked.push([...requests])
    return policy.sample(requests, how)
  }
  const protocol = resolveProtocol(choices, sizes)
  const { tokenizer, contextLength } = engine
  const names = new Set(protocol.seats.map((seat) => seat.policy))
  const author = { policy: { ...policy, sample }, tokenizer, contextLength }
  const writer = policyWriter(new Map([...names].map((name) => [name, author])), {
    readTokens: over.readTokens ?? null,
  })
  const tables = over.tables ?? (over.problems ?? problems).map((problem) => ({ problem }))
  const found = await play(writer, tables, {
    protocol,
    sampling: protocol.rounds.map(({ maxTokens }) => ({ maxTokens, temperature: 0.9, topP: 0.95 })),
    grader: mathGrader,
    seed: over.seed ?? [17, 'test'],
  })
  return { ...found, asked }
}

const texts = (rounds: readonly (readonly { text: string }[])[]) =>
  rounds.map((posts) => posts.map(({ text }) => text))

describe('play', () => {
  it('gives each problem a post of each speaker in each round, with what it read', async () => {
    const { played: boards } = await played(board())
    expect(boards.map(({ episode }) => episode.problemId)).toEqual(['a', 'b', 'c'])
    for (const { episode, traces } of boards) {
      expect(episode.rounds.map((posts) => posts.length)).toEqual([4, 4])
      for (const [r, posts] of episode.rounds.entries()) {
        for (const [i, post] of posts.entries()) {
          expect(post.seat).toBe(i)
          expect(post.reads).toEqual(
            r === 0
              ? []
              : [
                  [0, 0],
                  [0, 1],
                  [0, 2],
                  [0, 3],
                ],
          )
          const { completion, logprobs } = traces[r][i]
          expect(post.tokens).toBe(completion.length)
          expect(logprobs).toHaveLength(completion.length)
          expect(post.cut).toBe(!engine.tokenizer.stop.includes(completion.at(-1)!))
        }
      }
      const notes = episode.rounds[0].map(({ text }) => text)
      const { question } = problems.find(({ id }) => id === episode.problemId)!
      expect(traces[1][2].prompt).toEqual(engine.tokenizer.chat(readPrompt(question, notes)))
    }
  })

  it('computes a shared prompt once a problem, and a prompt of its own once a reader', async () => {
    const together = await played(board({ reads: shared }))
    const counts = (asked: SampleRequest[][]) =>
      asked.map((requests) => requests.map(({ seeds }) => seeds.length))
    expect(counts(together.asked)).toEqual([
      [4, 4, 4],
      [4, 4, 4],
    ])
    const alone = await played(board({ reads: own }))
    expect(counts(alone.asked)).toEqual([[4, 4, 4], Array(12).fill(1)])
    // Both draw the same four notes, and each reader from the same stream.
    expect(alone.asked[0]).toEqual(together.asked[0])
    expect(alone.asked[1].flatMap(({ seeds }) => seeds)).toEqual(
      together.asked[1].flatMap(({ seeds }) => seeds),
    )
  })

  it('depends on the seed alone: not on the problems beside, and not on an earlier call', async () => {
    const all = await played(board())
    const one = await played(board(), { problems: problems.slice(1, 2) })
    expect(one.played[0].episode).toEqual(all.played[1].episode)
    const other = await played(board(), { seed: [18, 'test'] })
    expect(other.played[1].episode).not.toEqual(all.played[1].episode)
  })

  it('plays several boards of a problem, each from streams of its own', async () => {
    const [problem] = problems
    const { played: boards } = await played(board(), { tables: [{ problem }, { problem, board: 1 }] })
    const alone = await played(board(), { problems: [problem] })
    expect(boards[0].episode).toEqual(alone.played[0].episode)
    expect(boards[1].episode).not.toEqual(boards[0].episode)
  })

  it('replays later rounds with the same numbers, without what nobody is to see', async () => {
    const { played: boards } = await played(board())
    const given = { played: boards[0], from: 0 }
    const { problem } = boards[0]
    const same = await played(board(), { tables: [{ problem, given }] })
    expect(same.played[0].episode).toEqual(boards[0].episode)
    expect(same.asked).toHaveLength(1)
    const { played: less, asked } = await played(board(), {
      tables: [{ problem, given, without: [[0, 1]] }],
    })
    expect(less[0].episode.rounds[0]).toEqual(boards[0].episode.rounds[0])
    for (const { reads } of less[0].episode.rounds[1])
      expect(reads).toEqual([
        [0, 0],
        [0, 2],
        [0, 3],
      ])
    expect(asked[0][0].seeds).toEqual(same.asked[0][0].seeds)
    const rest = [0, 2, 3].map((seat) => boards[0].episode.rounds[0][seat].text)
    expect(asked[0][0].prompt).toEqual(engine.tokenizer.chat(readPrompt(problem.question, rest)))
  })

  it('shortens the longest posts until the prompt fits, and says when even the question does not', async () => {
    const blank = engine.tokenizer.chat(readPrompt('What is a?', ['', '', '', ''])).length
    const readTokens = blank + 10
    const { played: boards } = await played(board(), { readTokens })
    for (const { traces } of boards) {
      for (const { prompt } of traces[1]) expect(prompt.length).toBeLessThanOrEqual(readTokens)
    }
    await expect(played(board(), { readTokens: blank - 1 })).rejects.toThrow(/raise board.readTokens/)
  })

  it('tells each seat its own parts', async () => {
    const problem: Problem = {
      id: 'x',
      question: 'How many?',
      gold: '1',
      parts: ['Ann has 2.', 'Bob has 3.'],
    }
    const { asked } = await played(board(), { problems: [problem] })
    // Two parts are dealt to four seats: two seats are asked alike.
    const chats = asked[0].map(({ prompt }) => engine.tokenizer.decode(prompt))
    expect(chats.map((chat) => [chat.includes('Ann'), chat.includes('Bob')])).toEqual([
      [true, false],
      [false, true],
    ])
    expect(engine.tokenizer.decode(asked[1][0].prompt)).not.toContain('Ann has 2.')
  })
})

describe('ready protocols', () => {
  it('debate: each turn reads all answers of the turn before', async () => {
    const { played: boards } = await played(debate({ turns: 3 }), { problems: problems.slice(0, 1) })
    const { rounds } = boards[0].episode
    expect(rounds.map((posts) => posts.length)).toEqual([4, 4, 4])
    expect(rounds[2][1].reads).toEqual([
      [1, 0],
      [1, 1],
      [1, 2],
      [1, 3],
    ])
    const [{ traces }] = boards
    expect(traces[2][0].prompt).toEqual(engine.tokenizer.chat(readPrompt('What is a?', texts(rounds)[1])))
  })

  it('revisers: each reads the draft before, and the last one answers', async () => {
    const { played: boards } = await played(revisers({ seats: 3 }), { problems: problems.slice(0, 1) })
    const { rounds } = boards[0].episode
    expect(rounds.map((posts) => posts.map(({ seat, reads }) => [seat, reads]))).toEqual([
      [[0, []]],
      [[1, [[0, 0]]]],
      [[2, [[1, 1]]]],
    ])
  })

  it('proposers: one aggregator reads all proposals', async () => {
    const { played: boards } = await played(proposers({ seats: 4 }), { problems: problems.slice(0, 1) })
    const { rounds } = boards[0].episode
    expect(rounds.map((posts) => posts.map(({ seat }) => seat))).toEqual([[0, 1, 2], [3]])
    expect(rounds[1][0].reads).toEqual([
      [0, 0],
      [0, 1],
      [0, 2],
    ])
  })

  it('random sights differ by problem and seat, and are the same again', async () => {
    const seen = async () =>
      (await played(board({ reads: randomOf(2) }))).played.map(({ episode }) =>
        episode.rounds[1].map(({ reads }) => reads),
      )
    const first = await seen()
    expect(first).toEqual(await seen())
    expect(new Set(first.flat().map((refs) => JSON.stringify(refs))).size).toBeGreaterThan(2)
  })
})

describe('a thought', () => {
  it('is neither graded nor read: what follows it is', async () => {
    const asked: Ask[] = []
    const texts = [
      '<think>\\boxed{1}</think>\n\\boxed{2}',
      '<think>\\boxed{2}</think>\\boxed{1}',
      '<think>so \\boxed{1}',
    ]
    const write: Writer<null> = async (asks) => {
      asked.push(...asks)
      return asks.map(({ seeds }) =>
        seeds.map((_, i) => ({ text: texts[i], tokens: 9, cut: false, trace: null })),
      )
    }
    const protocol = resolveProtocol(board({ seats: 3 }), sizes)
    const sampling = protocol.rounds.map(({ maxTokens }) => ({ maxTokens, temperature: 1, topP: 1 }))
    const { played } = await play(write, [{ problem: problems[0] }], {
      protocol,
      sampling,
      grader: mathGrader,
      seed: [1],
    })
    const [notes, replies] = played[0].episode.rounds
    expect(notes.map(({ text }) => text)).toEqual(['\\boxed{2}', '\\boxed{1}', ''])
    expect(replies.map(({ answer, correct }) => [answer, correct])).toEqual([
      ['2', false],
      ['1', true],
      [null, false],
    ])
    expect(asked.at(-1)?.seen).toEqual(['\\boxed{2}', '\\boxed{1}', ''])
  })

  it('that the prompt opened is a thought from the first token on', async () => {
    const says = async (tokenizer: Engine['tokenizer']) => {
      const { contextLength } = engine
      const write = policyWriter(new Map([[sharedPolicy, { policy, tokenizer, contextLength }]]), {
        readTokens: null,
      })
      const ask: Ask = {
        problem: problems[0],
        policy: sharedPolicy,
        seen: null,
        prompt: () => [{ role: 'user', content: 'Hello' }],
        seeds: [5],
      }
      const [[text]] = await write([ask], { maxTokens: 8, temperature: 1, topP: 1 })
      return text
    }
    const plain = await says(engine.tokenizer)
    expect(await says({ ...engine.tokenizer, opensThought: true })).toEqual({
      ...plain,
      text: `<think>${plain.text}`,
    })
  })
})
