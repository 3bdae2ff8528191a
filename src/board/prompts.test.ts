import { describe, expect, it } from 'vitest'
import { notePrompt, readPrompt } from './prompts.ts'

describe('prompts', () => {
  it('ask a writer for steps and a boxed answer to the question', () => {
    const [message, ...rest] = notePrompt('What is 2 plus 3?')
    expect(rest).toEqual([])
    expect(message.role).toBe('user')
    expect(message.content.startsWith('What is 2 plus 3?\n')).toBe(true)
    expect(message.content).toContain('\\boxed{}')
  })

  it('tell a writer its parts after the question, and nothing of parts where there are none', () => {
    const [{ content }] = notePrompt('How many in all?', ['Mia has 3 pens.', 'Tom has 5 pens.'])
    expect(content.startsWith('How many in all?\n\nYou know: Mia has 3 pens. Tom has 5 pens.\n')).toBe(true)
    expect(content).toContain('\\boxed{}')
    expect(notePrompt('Q?', [])).toEqual(notePrompt('Q?'))
    expect(notePrompt('Q?')[0].content).not.toContain('know')
  })

  it('number the notes in the order shown, trimmed, none left out', () => {
    const [{ content }] = readPrompt('Q?', [' 1+1=2 \n', '', 'cut in the'])
    expect(content).toContain('\nNote 1: 1+1=2\nNote 2: \nNote 3: cut in the\n')
    expect(content).not.toContain('Note 4')
  })

  it('differ between boards in the notes alone', () => {
    const own = readPrompt('Q?', ['a'])[0].content
    const shared = readPrompt('Q?', ['a', 'b'])[0].content
    expect(shared.replace('\nNote 2: b', '')).toBe(own)
  })
})
