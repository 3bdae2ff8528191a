/**
 * A world small enough to enumerate, behind the engine contract: writers post G or B with known probabilities, and readers
 * answer right with a probability that is a known function of the notes that they are shown. For tests of estimators.
 */
import { type Played, type PlayOptions, play, type Table } from '../../board/play.ts'
import { type Author, policyWriter, type Rollout } from '../../board/policy-writer.ts'
import { type Prompt, type Protocol, sharedPolicy } from '../../board/protocol.ts'
import type { ChatTokenizer, Policy, Tokens } from '../../engine/contract.ts'
import type { Grader } from '../../grade/types.ts'
import { random } from '../../random.ts'
import { creditTools } from '../tools.ts'

export interface TableWorld {
  /** Chance that a seat's note is G. */
  good: (seat: number) => number
  /** Chance that a reader who is shown these notes is right. */
  right: (notes: readonly string[]) => number
}

/** Token 1 is G, or a right answer; token 0 is B, or a wrong one. */
export const grader: Grader = {
  name: 'G is right',
  version: '1',
  grade: (text) => ({ answer: text, correct: text === 'G' }),
}

export const prompt: Prompt = (_problem, { index }, seen) => [
  { role: 'user', content: seen === null ? `w${index}` : `r${seen.join('')}` },
]

const codes = (text: string) => [...text].map((character) => character.charCodeAt(0))
const tokenizer: ChatTokenizer = {
  encode: codes,
  decode: (tokens: Tokens) => tokens.map((token) => (token === 1 ? 'G' : 'B')).join(''),
  chat: ([{ content }]) => codes(content),
  stop: [],
}

/** Who writes for every seat. */
export function tableAuthor({ good, right }: TableWorld): Author {
  const chance = (asked: Tokens): number => {
    const text = String.fromCharCode(...asked)
    return text.startsWith('w') ? good(Number(text.slice(1))) : right([...text.slice(1)])
  }
  const logprob = (asked: Tokens, token: number) => Math.log(token === 1 ? chance(asked) : 1 - chance(asked))
  const no = () => Promise.reject(new Error('a table has no gradient'))
  const policy: Policy = {
    sample: async (requests) =>
      requests.map(({ prompt, seeds }) =>
        seeds.map((seed) => {
          const token = random(seed).next() < chance(prompt) ? 1 : 0
          const logprobs = [logprob(prompt, token)]
          return { tokens: [token], samplingLogprobs: logprobs, logprobs, finish: 'length' as const }
        }),
      ),
    logprobs: async (sequences) =>
      sequences.map(({ prompt, completion }) =>
        Float32Array.from(completion, (token) => logprob(prompt, token)),
      ),
    forwardBackward: no,
    forwardBackwardSupervised: no,
    optimStep: no,
    save: no,
    load: no,
    dispose() {},
  }
  return { policy, tokenizer, contextLength: 1000 }
}

const sampling = { maxTokens: 1, temperature: 1, topP: 1 }

/** Plays boards of one problem, and the tools to pay them with. */
export async function playTable(world: TableWorld, protocol: Protocol, seed: number, boards = 1) {
  const authors = new Map([[sharedPolicy, tableAuthor(world)]])
  const options: PlayOptions = {
    protocol,
    sampling: protocol.rounds.map(() => sampling),
    grader,
    seed: [seed],
  }
  const writer = policyWriter(authors, { readTokens: null })
  const tables = Array.from(
    { length: boards },
    (_, board): Table<Rollout> => ({ problem: { id: 'p', question: '?', gold: 'G' }, board }),
  )
  const { played }: { played: Played<Rollout>[] } = await play(writer, tables, options)
  return { played, ...creditTools({ writer, authors, readTokens: null, ...options }) }
}
