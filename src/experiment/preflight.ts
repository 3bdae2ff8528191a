/** What is refused before any work is done: sizes and limits that contradict each other. Pure. */
import { notePrompt, readPrompt } from '../board/prompts.ts'
import { layout } from '../board/reads.ts'
import type { Reads } from '../board/types.ts'
import type { Engine } from '../engine/contract.ts'
import { UserError } from '../errors.ts'
import type { Split } from '../tasks/types.ts'
import type { Experiment } from './config.ts'
import { readLimit } from './job.ts'

/** Refuses a task that cannot fill a step or an evaluation. */
export function checkSplit({ task, train }: Experiment, split: Split): void {
  if (split.holdout.length === 0) {
    throw new UserError(`The task ${task.name} has no held-out problems: ask it for at least one.`)
  }
  if (split.train.length < train.problemsPerStep) {
    throw new UserError(
      `A step takes ${train.problemsPerStep} problems but the task ${task.name} gives ${split.train.length} to train on` +
        `${split.dropped > 0 ? ` (${split.dropped} dropped for overlap with the held-out set)` : ''}: ` +
        'lower train.problemsPerStep or ask the task for more.',
    )
  }
}

/** Of all problems, so many of the longest are tried: a text with more bytes seldom has fewer tokens. */
const TRIED = 32

/** Refuses limits that the model's context cannot hold, before anything is sampled. */
export function checkPrompts(
  experiment: Experiment,
  engine: Engine,
  { train, holdout }: Split,
  boards: readonly Reads[],
): void {
  const { board } = experiment
  const { contextLength, tokenizer } = engine
  const limit = readLimit(experiment, engine)
  if (limit < 1 || limit + board.replyTokens > contextLength) {
    throw new UserError(
      `A prompt of ${Math.max(limit, 0)} tokens and a reply of ${board.replyTokens} do not fit the model's context of ` +
        `${contextLength}: lower board.readTokens or board.replyTokens.`,
    )
  }
  const seen = Math.max(
    ...boards.flatMap((reads) => layout(reads, board.copies)).map((notes) => notes.length),
  )
  const blank = Array.from({ length: seen }, () => '')
  const longest = [...holdout, ...train]
    .sort((a, b) => Buffer.byteLength(b.question) - Buffer.byteLength(a.question))
    .slice(0, TRIED)
  for (const problem of longest) {
    const first = tokenizer.chat(notePrompt(problem.question)).length
    if (first + board.noteTokens > contextLength) {
      throw new UserError(
        `Problem ${problem.id} takes ${first} tokens to pose, and with a note of ${board.noteTokens} it exceeds the ` +
          `model's context of ${contextLength}: lower board.noteTokens or leave this problem out.`,
      )
    }
    const second = tokenizer.chat(readPrompt(problem.question, blank)).length + seen * board.noteTokens
    if (second > limit) {
      throw new UserError(
        `Problem ${problem.id} with ${seen} notes of ${board.noteTokens} tokens makes a prompt of ${second}, above the ` +
          `limit of ${limit} (context ${contextLength}, replies ${board.replyTokens}): lower board.noteTokens` +
          `${board.readTokens === null ? '' : ', raise board.readTokens'} or leave this problem out.`,
      )
    }
  }
}
