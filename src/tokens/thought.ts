/**
 * Thinking models write `<think>...</think>` before their answer. What they think is theirs: a reader sees what follows
 * it, and so does a grader. Pure.
 */

export const thoughtOpens = '<think>'
export const thoughtCloses = '</think>'

export interface AfterThought {
  /** What follows the last thought; of a text without thoughts the text itself; nothing where a thought is still open. */
  text: string
  /** The text ends inside a thought: cut short, or ended before it came to an answer. */
  open: boolean
}

/**
 * What a text says once its thoughts are taken away. Thoughts do not nest: the last tag decides, and whatever stands
 * before a closing tag was a thought, opened in this text or by the prompt.
 */
export function afterThought(text: string): AfterThought {
  const closed = text.lastIndexOf(thoughtCloses)
  if (text.lastIndexOf(thoughtOpens) > closed) return { text: '', open: true }
  return { text: closed < 0 ? text : text.slice(closed + thoughtCloses.length).trimStart(), open: false }
}

/** Whether a rendered prompt leaves a thought open, which the reply then goes on with. */
export function endsInThought(prompt: string): boolean {
  return prompt.trimEnd().endsWith(thoughtOpens)
}
