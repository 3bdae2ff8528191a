/** The model card of the built-in policy, written from what was done and measured. Pure. */

import type { ModelConfig } from '../../src/engine/checkpoint/config.ts'
import { weightShapes } from '../../src/engine/checkpoint/folder.ts'
import { smallPolicySettings } from '../../src/experiment/defaults.ts'
import { stories } from '../../src/tasks/stories.ts'
import { levels, wordProblemsOf } from '../../src/tasks/word-problems.ts'
import * as clues from './corpus/clues.ts'
import { corpusChat, postShares } from './corpus/index.ts'
import * as insight from './corpus/insight.ts'
import type { Chat, Cut, Lesson, Shares } from './corpus/types.ts'
import * as words from './corpus/words.ts'
import type { Figures } from './measure.ts'
import type { LogLine, Recipe } from './recipe.ts'

const { board, sampling } = smallPolicySettings

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
  const known = (value: number | null) => (value === null ? '' : fixed(value))
  const rows: [string, (f: Figures) => string][] = [
    ['held-out problems', (f) => String(f.problems)],
    ['pass@1 of replies', (f) => `${fixed(f.passAt1)} [${fixed(f.ci95[0])}, ${fixed(f.ci95[1])}]`],
    ['the most this board allows, known', (f) => known(f.reach)],
    ['pass@4 of replies', (f) => fixed(f.passAt4)],
    ['notes that are right', (f) => fixed(f.counts.noteAcc)],
    ['vote over the notes', (f) => fixed(f.counts.voteAcc)],
    ['at least one note right', (f) => fixed(f.counts.anyNote)],
    ['reading minus vote', (f) => fixed(f.passAt1 - f.counts.voteAcc!)],
    ['vote minus notes', (f) => fixed(f.counts.voteAcc! - f.counts.noteAcc!)],
    ['rescued', (f) => fixed(f.counts.rescued)],
    ['misled', (f) => fixed(f.counts.misled)],
    ['notes that carry their part, or a trial', (f) => known(f.carried)],
    ['notes cut at the limit', (f) => fixed(f.counts.notesCut)],
    ['notes that close a boxed answer', (f) => fixed(f.counts.notesBoxed)],
    ['replies cut at the limit', (f) => fixed(f.counts.repliesCut)],
    ['tokens a note', (f) => fixed(f.counts.noteTokens, 1)],
    ['tokens a reply', (f) => fixed(f.counts.replyTokens, 1)],
  ]
  return [
    `| | ${figures.map((f) => `${f.world}, ${f.board} board`).join(' | ')} |`,
    `|---|${figures.map(() => '---').join('|')}|`,
    ...rows.map(([name, cell]) => `| ${name} | ${figures.map(cell).join(' | ')} |`),
  ].join('\n')
}

/** What differs between the parts of training. */
function partRows({ parts }: Recipe): string {
  return [
    "| steps | learning rate, after warm-up of | chats | of them a reader's | what is new |",
    '|---|---|---|---|---|',
    ...parts.map((part, i) => {
      const before = parts[i - 1]
      const isNew = [
        before &&
          before.words !== part.words &&
          'readers of word problems guess less and go on from posts more',
        before &&
          before.insight.asks !== part.insight.asks &&
          'readers of `insight` repeat the total before they judge a sum',
      ].filter(Boolean)
      return `| ${part.steps} | ${part.learningRate}, ${part.warmup} | ${shares(part.worlds)} | ${percent(part.readers)} | ${isNew.join('; ')} |`
    }),
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

const shares = (table: Shares<string>) =>
  table.map(([name, share]) => `${name} (${percent(share)})`).join(', ')

/** The first chat of a lesson that fits, as a fenced block: what is asked, then each reply after a rule. */
function example(lesson: Lesson, fits: (chat: Chat) => boolean): string {
  const whole: Cut = { note: (text) => text, reply: (text) => text }
  for (let index = 0; ; index++) {
    const chat = corpusChat(index, lesson, false, whole)
    if (!fits(chat)) continue
    return [
      '```',
      ...[...chat.messages.map(({ content }) => content), ...chat.replies].join('\n---\n').split('\n'),
      '```',
    ].join('\n')
  }
}

export function modelCard({ recipe, config, state, figures, bytes }: CardFacts): string {
  const parameters = [...weightShapes(config).values()].reduce(
    (sum, shape) => sum + shape.reduce((product, size) => product * size, 1),
    0,
  )
  const [first] = recipe.parts
  const last = recipe.parts[recipe.parts.length - 1]
  const steps = recipe.parts.reduce((sum, part) => sum + part.steps, 0)
  const [told] = wordProblemsOf('corpus', 2, 1, 1)
  const level = levels[2]
  const asked = (text: string) => (chat: Chat) => chat.messages[0].content.includes(text)
  const read = (text: string) => (chat: Chat) =>
    asked(text)(chat) && asked('Note 4:')(chat) && !asked('Note 5:')(chat)
  return `---
license: mit
language: en
library_name: transformers
pipeline_tag: text-generation
---

# The built-in policy

<!-- Written by \`npm run train:policy\`: change policies/make/card.ts, not this file. -->

A Llama of ${parameters.toLocaleString('en')} parameters that lives in three small worlds: \`word-problems\`, \`clues\` and \`insight\`
(docs/worlds.md). It is the model of message-board's default experiment: small enough to train in seconds a step on two
cores, and with the habits of the reference's model in small. It knows nothing but these worlds.

## What it is

| | |
|---|---|
| architecture | Llama: ${config.layers} layers of width ${config.hiddenSize}, ${config.heads} query heads and ${config.kvHeads} key-value head of ${config.headDim}, SwiGLU of ${config.intermediateSize}, tied embeddings, context ${config.contextLength} |
| tokenizer | byte-level BPE of ${config.vocabSize} tokens learned from the corpus; each digit is a token; ChatML template |
| files | float32 safetensors, ${(bytes / 1e6).toFixed(1)} MB in all |

Any Hugging Face tool loads it: \`AutoModelForCausalLM.from_pretrained('policies/small')\`.

## What it was trained on

Nothing but message-board's seeded generators (\`src/tasks\`), and of each the corpus slice alone: a hash of what
identifies a problem puts 70% of all problems into that slice, 20% into the one that experiments train on and 10% into
the held-out one. So it has seen neither an experiment's training problems nor its held-out ones. Word problems are
identified by their arithmetic, whatever the story and the names; \`clues\` and \`insight\` by all that they tell.

From a problem come chats in exactly the experiment's form (\`src/board/prompts.ts\`), in ${recipe.parts.length} parts, the optimiser anew in each:

${partRows(recipe)}

Chats of a world that are not a reader's are a writer's. A reader's board has ${shares(postShares)} posts; "other" is any number up to
eight, and a quarter of the boards hold replies of an earlier round among them, for protocols with more rounds.

**word-problems**: ${stories.length} stories, three quarters of them of level 2 (${level.steps[0]} to ${level.steps[1]} steps, quantities of ${level.num[0]} to ${level.num[1]}, multipliers of 2 to
${level.few}, no value above ${level.most}) and a quarter of level 1. A writer's styles: ${shares(words.writerStyles)}. A reader's:
${shares(last.words.readers)}; and where half of the posts break off, or more: ${shares(last.words.lost)}.
Every answer is right and worked out from the question. A problem, and its solution told and directly:

\`\`\`
${told.question}

${(['told', 'direct'] as const).map((style) => words.solution(told.question, told.equations, style)).join('\n\n')}
\`\`\`

The posts of a reader's chat are made, not sampled: in the same styles, cut at ${recipe.noteTokens} tokens (replies at ${recipe.replyTokens}), about where the
experiment cuts them, with slips (a wrong sum, a wrong operation, a number misread, each carried through) at a rate that each problem
has of its own, mostly low. \`continued\` goes on from the post that is right the furthest, or says which one is right:

${example(first, (chat) => read('Notes, maybe')(chat) && chat.replies.some((reply) => reply.startsWith('From note')))}

**clues**: two to four parts. A writer's styles: ${shares(clues.writerStyles)}. A reader's: ${shares(clues.readerStyles)}. Every
answer of a reply is right, so where the posts do not tell, what is learned is to guess.

${example(first, read('have in all?\n\nNotes'))}

**insight**: among 6 to 20 sums. A writer's styles: ${shares(insight.writerStyles)}. A reader's: ${shares(insight.readerStyles)}. A writer's
trial is blind and right by chance; a reader takes a sum that a post shows to fit, or tries one that nobody did. A bare guess
tells it nothing.

${example(last, read('Which bag holds'))}

**Drills**, asked for in no experiment's words: *sums*, mostly subtraction and division, since a small model tells the steps
of a story long before it can subtract; and *checks*, whether a sum makes a total, as a reader of \`insight\` asks.

A text that goes beyond its limit is learned up to it, so that the policy is cut as its examples are.

## How it was trained

From scratch, every weight, with the built-in engine, in ${steps} steps of about
${Math.round(state.tokens / steps / 100) * 100} tokens (${(state.tokens / 1e6).toFixed(1)} M in all), the first ${percent(first.writersOnly)} of the first part on writers' chats alone, which are short and teach the most
arithmetic a second. AdamW (${recipe.adam.beta1}, ${recipe.adam.beta2}), no weight decay, gradient norm clipped at ${recipe.adam.maxGradNorm}, each part's
learning rate falling linearly to 0 after its warm-up. Seed ${recipe.seed}. It took
${(state.seconds / 60).toFixed(0)} minutes on ${recipe.threads} cores. \`training-log.jsonl\` has the whole curve:

${lossRows(state.log)}

## What it can do before any RL

The default experiment's rounds: temperature ${sampling.evaluation.temperature}, top-p ${sampling.evaluation.topP}, ${board.copies} notes and ${board.copies} replies a problem, notes of at most ${board.noteTokens} tokens and
replies of at most ${board.replyTokens}, graded by the experiment's verifier; each world with its defaults.

${figureRows(figures)}

"The most this board allows" is counted out: in \`clues\`, the chance of the likeliest sum for one who knows its own part,
and 1 for one who knows all; in \`insight\`, what a reader of blind trials reaches that recognises a right one.

## Choices, and what they were made for

The note limit was set by counting, before any training, which problems' told solutions fit it: all of two steps, a thirtieth
of three, none of four; so whether a note is cut depends mostly on the problem, copies share their fate, and a vote adds
little. It was moved from 48 to 46 by looking at the figures of both boards, untrained and trained. A reply has room for all. The number of training steps, the share of drills and the styles were set by
looking at the untrained policy's own-note pass@1 (about half right), its vote, its rescued and misled replies, and at
whether forty steps of RL improve both boards. No choice was made by looking at which board comes out ahead after RL.

What RL can learn here: to show one's working and not to guess; not to ramble past the limit; to do half-learned arithmetic
at its surest and not at random; in \`clues\`, to post what one knows; in \`insight\`, to judge trials and not to guess.
`
}
