/** A word explained where it stands: a dotted word that opens its meaning. */
import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'

/** What the words of this page mean. */
const meanings = {
  note: 'A short text that a copy posts before it has read anything. It is cut at 46 tokens, so it cannot say everything.',
  reply: 'What a copy answers after it has read the notes that it is shown. The replies are what counts.',
  token:
    'A piece of a word: what a language model reads and writes one at a time. This model knows 1,024 of them.',
  verifier:
    'A program that reads the final answer out of a text and compares it with the right one. It is the only judge here, and the only source of reward.',
  GRPO: 'Group relative policy optimisation. Texts that answer the same prompt are a group; one that earned more than its group’s mean is made likelier, one that earned less is made less likely. Nothing else teaches the model.',
  LoRA: 'Low-rank adaptation: the model itself stays as it is, and a small correction beside its weights is trained.',
  reward:
    'What a text earns in training. A reply earns 1 where it is right and 0 where not; what a note earns is the rule that you choose.',
  arm: 'One way of doing it. Two arms that differ in one thing, trained from the same seeds on the same problems, can be compared.',
  seed: 'The number that all chance of a training follows from: which problems come when, and what is drawn. Another seed is another training, and ends elsewhere.',
  'held out': 'Problems that no training has seen. Only on these is anything compared.',
  interval:
    'The range that holds the true difference in 95 of 100 experiments like this one: over other problems, other seeds, other draws.',
  nats: 'The unit of log-probability. +1 makes a text 2.7 times as likely, +2 makes it 7.4 times as likely, and -1 divides by 2.7.',
  WebGPU:
    'How a page computes on a graphics processor. Not every browser gives it one; WebAssembly, on the ordinary processor, works in all of them.',
  'pass@1': 'The share of replies that are right.',
} as const

export type Word = keyof typeof meanings

export function Term({ word, children }: { word: Word; children?: ComponentChildren }) {
  const id = useId()
  const place = (event: Event) => {
    const button = event.currentTarget as HTMLElement
    const box = document.getElementById(id)
    if (!box) return
    const { left, bottom } = button.getBoundingClientRect()
    const room = document.documentElement.clientWidth
    box.style.left = `${Math.max(12, Math.min(left, room - 332))}px`
    box.style.top = `${bottom + 6}px`
  }
  return (
    <>
      <button type="button" class="term" popovertarget={id} onClick={place}>
        {children ?? word}
      </button>
      <span id={id} popover="auto" class="meaning" role="note">
        <b>{word}</b> {meanings[word]}
      </span>
    </>
  )
}
