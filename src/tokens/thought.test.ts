import fc from 'fast-check'
import { expect, test } from 'vitest'
import { afterThought, endsInThought } from './thought.ts'

test.each<[string, string, string, boolean]>([
  ['no thought', 'It is \\boxed{4}.', 'It is \\boxed{4}.', false],
  ['a thought before the answer', '<think>\\boxed{3}? no\n</think>\n\n\\boxed{4}', '\\boxed{4}', false],
  ['a thought that the prompt opened', 'maybe \\boxed{3}\n</think>\n\\boxed{4}', '\\boxed{4}', false],
  ['a thought that was cut after a box', '<think>so \\boxed{4}, let me check', '', true],
  ['an empty thought', '<think>\n\n</think>\n\n\\boxed{4}', '\\boxed{4}', false],
  ['two thoughts', '<think>a</think>\\boxed{1}<think>b</think>\\boxed{2}', '\\boxed{2}', false],
  ['a second thought that is left open', '<think>a</think>\\boxed{1}<think>b', '', true],
  ['an open thought after an answer', 'It is \\boxed{1}. <think>or', '', true],
  ['a thought that speaks of thoughts', '<think>I write <think> here</think>7', '7', false],
  ['nothing after the thought', '<think>\\boxed{4}</think>', '', false],
])('%s', (_, text, after, open) => {
  expect(afterThought(text)).toEqual({ text: after, open })
})

test('whatever is thought, what follows is read as if it had not been', () => {
  const plain = fc.string().filter((text) => !/<\/?think>/.test(text))
  fc.assert(
    fc.property(plain, plain, (thought, answer) => {
      const said = afterThought(`<think>${thought}</think>${answer}`)
      expect(said).toEqual({ text: answer.trimStart(), open: false })
      expect(afterThought(answer)).toEqual({ text: answer, open: false })
      expect(afterThought(`<think>${thought}`)).toEqual({ text: '', open: true })
    }),
  )
})

test('a prompt that opens the thought is told from one that closes it', () => {
  expect(endsInThought('<|Assistant|><think>\n')).toBe(true)
  expect(endsInThought('<|im_start|>assistant\n<think>\n\n</think>\n\n')).toBe(false)
  expect(endsInThought('<|im_start|>assistant\n')).toBe(false)
})
