import { describe, expect, it } from 'vitest'
import { board } from '../board/protocols.ts'
import type { Problem, Split } from '../tasks/types.ts'
import { defineExperiment } from './config.ts'
import type { Engines } from './engine.ts'
import { checkPrompts, checkSplit } from './preflight.ts'

/** A model that reads one token a character. */
const engineOf = (contextLength: number) =>
  ({
    of: () =>
      Promise.resolve({
        contextLength,
        tokenizer: {
          chat: (chat: { content: string }[]) =>
            chat
              .map(({ content }) => content)
              .join('')
              .split(''),
        },
      }),
  }) as unknown as Engines

const experiment = defineExperiment({
  arms: { a: { protocol: board() } },
  board: { copies: 2, noteTokens: 10, replyTokens: 10, readTokens: null },
  train: { problemsPerStep: 1 },
})
const problem = (changes: Partial<Problem> = {}): Problem => ({
  id: 'p',
  question: 'How many?',
  gold: '1',
  ...changes,
})
const splitOf = (...holdout: Problem[]): Split => ({ train: [problem({ id: 't' })], holdout, dropped: 0 })

describe('checkPrompts', () => {
  // Longer questions than the one whose parts make the longest prompt of all.
  const longer = Array.from({ length: 40 }, (_, i) =>
    problem({ id: `q${i}`, question: 'How many? '.repeat(20) }),
  )
  const parts = ['a fact '.repeat(300), 'another fact']

  it('counts what only some seats are told', async () => {
    const whole = splitOf(...longer, problem({ id: 'dealt', parts }))
    await expect(checkPrompts(experiment, engineOf(2000), whole)).rejects.toThrow(
      /round 1 .*problem dealt makes a prompt of \d+ tokens/,
    )
    await expect(checkPrompts(experiment, engineOf(2000), splitOf(...longer))).resolves.toBeUndefined()
  })

  it('finds a question that is longest where parts are read by nobody', async () => {
    // A reader is shown the question and the notes: here its prompt is the longest.
    const dealt = Array.from({ length: 40 }, (_, i) =>
      problem({ id: `d${i}`, parts: Array(8).fill('a fact '.repeat(40)) }),
    )
    const long = problem({ id: 'long', question: 'How many? '.repeat(190) })
    await expect(checkPrompts(experiment, engineOf(2000), splitOf(...dealt, long))).rejects.toThrow(
      /problem long makes a prompt of \d+ tokens/,
    )
    await expect(checkPrompts(experiment, engineOf(2000), splitOf(...dealt))).resolves.toBeUndefined()
  })
})

describe('checkSplit', () => {
  it('refuses half a character in any text of a task of one’s own', () => {
    const half = 'caf\ud83d'
    for (const [name, changes] of [
      ['id', { id: half }],
      ['question', { question: half }],
      ['gold', { gold: half }],
      ['parts', { parts: ['whole', half] }],
    ] as const) {
      expect(() => checkSplit(experiment, splitOf(problem(), problem(changes)))).toThrow(
        new RegExp(`${experiment.task.name}: the ${name} of problem .* has half of a character`),
      )
    }
    expect(() => checkSplit(experiment, splitOf(problem({ question: 'café 😀' })))).not.toThrow()
  })
})
