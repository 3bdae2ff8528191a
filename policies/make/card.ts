/** The model card of the built-in policy, written from what was done and measured. Pure. */

import { notePrompt, readPrompt } from '../../src/board/prompts.ts'
import type { ModelConfig } from '../../src/engine/checkpoint/config.ts'
import { weightShapes } from '../../src/engine/checkpoint/folder.ts'
import { stories } from '../../src/tasks/stories.ts'
import { levels, wordProblemsOf } from '../../src/tasks/word-problems.ts'
import type { LogLine, Recipe } from '../make.ts'
import { solution, styles } from './corpus.ts'
import type { Figures } from './measure.ts'

export interface CardFacts {
  recipe: Recipe
  config: ModelConfig
  state: { seconds: number; tokens: number; log: readonly LogLine[] }
  figures: readonly Figures[]
  /** Of all the policy's files but the card. */
  bytes: number
}

/** Both rounds of the board are counted; what there is none of has a dash. */
const fixed = (value: number | null, digits = 3) => value?.toFixed(digits) ?? '–'
const percent = (share: number) => `${(100 * share).toFixed(0)}%`

function figureRows(figures: readonly Figures[]): string {
  const rows: [string, (f: Figures) => string][] = [
    ['held-out problems', (f) => String(f.problems)],
    ['pass@1 of replies', (f) => `${fixed(f.passAt1)} [${fixed(f.ci95[0])}, ${fixed(f.ci95[1])}]`],
    ['pass@4 of replies', (f) => fixed(f.passAt4)],
    ['notes that are right', (f) => fixed(f.counts.noteAcc)],
    ['notes cut at the limit', (f) => fixed(f.counts.notesCut)],
    ['notes that close a boxed answer', (f) => fixed(f.counts.notesBoxed)],
    ['vote over the notes', (f) => fixed(f.counts.voteAcc)],
    ['at least one note right', (f) => fixed(f.counts.anyNote)],
    ['replies cut at the limit', (f) => fixed(f.counts.repliesCut)],
    ['rescued', (f) => fixed(f.counts.rescued)],
    ['misled', (f) => fixed(f.counts.misled)],
    ['tokens a note', (f) => fixed(f.counts.noteTokens, 1)],
    ['tokens a reply', (f) => fixed(f.counts.replyTokens, 1)],
  ]
  return [
    `| | ${figures.map((f) => `level ${f.level}, ${f.board} board`).join(' | ')} |`,
    `|---|${figures.map(() => '---').join('|')}|`,
    ...rows.map(([name, cell]) => `| ${name} | ${figures.map(cell).join(' | ')} |`),
  ].join('\n')
}

function lossRows(log: readonly LogLine[]): string {
  const every = Math.max(1, Math.round(log.length / 10))
  const shown = log.filter((_, i) => (i + 1) % every === 0 || i === log.length - 1)
  return [
    '| step | tokens seen | loss (nats a reply token) | gradient norm | learning rate |',
    '|---|---|---|---|---|',
    ...shown.map(
      (l) =>
        `| ${l.step} | ${(l.tokens / 1e6).toFixed(1)} M | ${l.loss.toFixed(4)} | ${l.gradNorm.toFixed(2)} | ${l.learningRate.toExponential(1)} |`,
    ),
  ].join('\n')
}

export function modelCard({ recipe, config, state, figures, bytes }: CardFacts): string {
  const parameters = [...weightShapes(config).values()].reduce(
    (sum, shape) => sum + shape.reduce((product, size) => product * size, 1),
    0,
  )
  const [example] = wordProblemsOf('corpus', 2, 1, 1)
  const { steps, num, few, most } = levels[2]
  return `---
license: mit
language: en
library_name: transformers
pipeline_tag: text-generation
---

# The built-in policy: word problems

<!-- Written by \`npm run train:policy\`: change policies/make/card.ts, not this file. -->

A Llama of ${parameters.toLocaleString('en')} parameters that solves grade-school word problems about half of the time. It is
the model of message-board's default experiment: small enough to train in seconds a step on two cores, and with the
habits of the reference's model in small. It knows nothing but these problems.

## What it is

| | |
|---|---|
| architecture | Llama: ${config.layers} layers of width ${config.hiddenSize}, ${config.heads} query heads and ${config.kvHeads} key-value head of ${config.headDim}, SwiGLU of ${config.intermediateSize}, tied embeddings, context ${config.contextLength} |
| tokenizer | byte-level BPE of ${config.vocabSize} tokens learned from the corpus; each digit is a token; ChatML template |
| files | float32 safetensors, ${(bytes / 1e6).toFixed(1)} MB in all |

Any Hugging Face tool loads it: \`AutoModelForCausalLM.from_pretrained('policies/small')\`.

## What it was trained on

Nothing but message-board's seeded generator (\`src/tasks/word-problems.ts\`): ${stories.length} stories, three quarters of them of level 2
(${steps[0]} to ${steps[1]} steps, quantities of ${num[0]} to ${num[1]}, multipliers of 2 to ${few}, no value above ${most}) and a quarter of level 1. A hash of a problem's arithmetic,
its equations whatever the story and the names, puts 70% of all problems into the corpus slice, 20% into the one that
experiments train on and 10% into the held-out one. The policy saw the corpus slice alone, so it has seen neither an
experiment's training problems nor its held-out ones, nor their arithmetic in another story.

From a problem come chats in exactly the experiment's form (\`src/board/prompts.ts\`):

- half are a writer's: question, then a solution;
- a quarter are a reader's with one note, and a quarter a reader's with four notes, so that neither board is more
  familiar than the other.

Every solution that it imitates is right and is worked out from the question; nothing says which notes are right, and
nothing pays for agreeing with them. Each chat has two replies in different styles: ${styles.map(([name, share]) => `${name} (${percent(share)})`).join(', ')}.
A problem, and its solution in each of them:

\`\`\`
${example.question}

${styles.map(([style]) => `[${style}]\n${solution(example.question, example.equations, style)}`).join('\n\n')}
\`\`\`

The notes in readers' chats are made, not sampled: solutions in the same styles, cut at ${recipe.noteTokens} tokens as the experiment cuts
notes, with slips (a wrong sum, a wrong operation, a number misread, each carried through). Each problem has its own
rate of slips, even from 0 to 0.6 a step, so that about half of the uncut notes are right, and problems differ.

A writer is asked

\`\`\`
${notePrompt('{question}')[0].content}
\`\`\`

and a reader

\`\`\`
${readPrompt('{question}', ['{note}', '{note}'])[0].content}
\`\`\`

## How it was trained

From scratch, every weight, with the built-in engine: ${recipe.steps} steps of about 4,000 tokens (${(state.tokens / 1e6).toFixed(1)} M in all), the first
${percent(recipe.writersOnly)} on writers' chats alone, which are short and teach the most arithmetic a second. AdamW (${recipe.adam.beta1}, ${recipe.adam.beta2}), no weight decay,
gradient norm clipped at ${recipe.adam.maxGradNorm}, learning rate ${recipe.learningRate} after ${recipe.warmup} steps of warm-up, then falling linearly to 0. Seed ${recipe.seed}. It took
${(state.seconds / 60).toFixed(0)} minutes on ${recipe.threads} cores. \`training-log.jsonl\` has the whole curve:

${lossRows(state.log)}

## What it can do before any RL

Temperature 0.9, top-p 0.95 in both rounds, 4 notes and 4 replies a problem, notes of at most ${recipe.noteTokens} tokens and replies of at
most ${recipe.replyTokens}, graded by the experiment's verifier.

${figureRows(figures)}

## Choices, and what they were made for

The number of training steps and the range of the numbers were set by looking at the untrained policy's own-note
pass@1 on held-out problems, so that it is about half right; the note limit by looking at how many notes end before their
answer, a good part of them, as in the reference experiment. A reply has room for nearly every style.

What RL can learn here: to show its working and not to guess; to write so that a note or reply ends in time; to do its
half-learned arithmetic at its surest and not at random; and to read notes that are wrong or cut more often than right. The direct style
was added after a first policy without it, whose readers forty steps of RL improved by two to five points on either
board: too little to see learning by. That was judged on both boards together. No choice was made by looking at which
board comes out ahead after RL.
`
}
