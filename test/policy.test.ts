/** The built-in policy as it ships: its size, its equality with transformers, and how good it is before any RL. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { countEpisodes, finalScores } from '../src/board/counts.ts'
import { playPolicy } from '../src/board/policy-writer.ts'
import { resolveProtocol } from '../src/board/protocol.ts'
import { board as boardOf } from '../src/board/protocols.ts'
import { own } from '../src/board/sights.ts'
import type { Engine, Policy } from '../src/engine/contract.ts'
import { openOnnxEngine } from '../src/engine/onnx/index.ts'
import { smallPolicySettings } from '../src/experiment/defaults.ts'
import { mathGrader } from '../src/grade/grader.ts'
import { passAt } from '../src/stats/index.ts'
import { wordProblems } from '../src/tasks/word-problems.ts'

const folder = join(import.meta.dirname, '../policies/small')

/** Made by test/golden/policy.py with transformers. */
interface Golden {
  chats: { prompt: string; reply: string; ids: number[]; completion: number[]; logprobs: number[] }[]
}
const golden: Golden = JSON.parse(readFileSync(new URL('./fixtures/policy.json', import.meta.url), 'utf8'))

let engine: Engine
let policy: Policy
beforeAll(async () => {
  engine = await openOnnxEngine({ model: folder })
  policy = await engine.createPolicy()
})
afterAll(() => engine.close())

describe('the built-in policy', () => {
  it('takes at most 6 MB', () => {
    const bytes = readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)
    expect(bytes).toBeLessThan(6e6)
  })

  it("has transformers' tokens and log-probabilities", async () => {
    const { tokenizer } = engine
    for (const { prompt, reply, ids, completion } of golden.chats) {
      expect(tokenizer.chat([{ role: 'user', content: prompt }])).toEqual(ids)
      expect([...tokenizer.encode(reply), tokenizer.stop[0]]).toEqual(completion)
    }
    const sequences = golden.chats.map(({ ids, completion }) => ({ prompt: ids, completion }))
    const scores = await policy.logprobs(sequences, { temperature: 1 })
    golden.chats.forEach(({ logprobs }, i) => {
      scores[i].forEach((score, t) => {
        expect(Math.abs(score - logprobs[t])).toBeLessThan(1e-4 * Math.max(1, Math.abs(logprobs[t])))
      })
    })
  })

  it('is about half right on word problems held out, and reads better than a vote over its notes, half of them cut', async () => {
    const { board, sampling } = smallPolicySettings
    const { holdout } = await wordProblems({ train: 0, holdout: 120 }).load()
    const protocol = resolveProtocol(boardOf({ reads: own }), board)
    const { played } = await playPolicy({ ...engine, policy }, holdout, {
      protocol,
      sampling: protocol.rounds.map(({ maxTokens }) => ({ maxTokens, ...sampling.evaluation })),
      grader: mathGrader,
      seed: ['test'],
    })
    const boards = played.map(({ episode }) => episode)
    const { passAt1 } = passAt(boards.map((episode) => finalScores(episode, 'each')))
    const { noteAcc, voteAcc, notesCut, misled } = countEpisodes(boards)
    expect(passAt1.value).toBeGreaterThan(0.4)
    expect(passAt1.value).toBeLessThan(0.6)
    expect(noteAcc).toBeGreaterThan(0.25)
    expect(voteAcc).toBeLessThan(passAt1.value)
    expect(voteAcc! - noteAcc!).toBeLessThan(0.12)
    expect(misled).toBeLessThan(0.1)
    expect(notesCut).toBeGreaterThan(0.35)
  })
})
