/** What is refused before any work is done: sizes and limits that contradict each other. Pure but for the tokenizers. */
import { protocolRecord, seatView } from '../board/protocol.ts'
import { UserError } from '../errors.ts'
import { checkWhole } from '../tasks/sizes.ts'
import type { Problem, Split } from '../tasks/types.ts'
import type { Arm } from './arms.ts'
import type { Experiment } from './config.ts'
import type { Engines } from './engine.ts'

/** Refuses a task that cannot fill a step or an evaluation, or whose texts no file or model takes as they are. */
export function checkSplit({ task, arms }: Pick<Experiment, 'task' | 'arms'>, split: Split): void {
  checkWhole([...split.holdout, ...split.train], task.name)
  if (split.holdout.length === 0) {
    throw new UserError(`The task ${task.name} has no held-out problems: ask it for at least one.`)
  }
  for (const { train } of Object.values(arms)) {
    if (split.train.length >= train.problemsPerStep) continue
    throw new UserError(
      `A step takes ${train.problemsPerStep} problems but the task ${task.name} gives ${split.train.length} to train on` +
        `${split.dropped > 0 ? ` (${split.dropped} dropped for overlap with the held-out set)` : ''}: ` +
        'lower train.problemsPerStep or ask the task for more.',
    )
  }
}

/** Of all problems, so many of the longest are tried: a text with more bytes seldom has fewer tokens. */
const TRIED = 32

const bytes = new TextEncoder()

/** Refuses limits that the models' contexts cannot hold, before anything is sampled. */
export async function checkPrompts(
  experiment: Pick<Experiment, 'board' | 'arms'>,
  engines: Engines,
  { train, holdout }: Split,
): Promise<void> {
  const problems = [...holdout, ...train]
  // A writer is shown its parts too, a reader the question alone.
  const longest = new Set([
    ...longestBy(problems, ({ question }) => sizeOf(question)),
    ...longestBy(problems, ({ question, parts = [] }) => sizeOf(question + parts.join(''))),
  ])
  for (const arm of Object.values(experiment.arms)) {
    await checkArm(arm, experiment.board.readTokens, engines, longest)
  }
}

const sizeOf = (text: string): number => bytes.encode(text).length

function longestBy(problems: readonly Problem[], size: (problem: Problem) => number): Problem[] {
  return problems
    .map((problem) => ({ problem, size: size(problem) }))
    .sort((a, b) => b.size - a.size)
    .slice(0, TRIED)
    .map(({ problem }) => problem)
}

async function checkArm(
  { protocol, policies }: Arm,
  readTokens: number | null,
  engines: Engines,
  longest: Iterable<Problem>,
): Promise<void> {
  const { rounds } = protocolRecord(protocol)
  for (const [r, { speakers, sights, maxTokens, name }] of rounds.entries()) {
    for (const [s, seat] of speakers.entries()) {
      const { contextLength, tokenizer } = await engines.of(policies[protocol.seats[seat].policy].model)
      const refs = sights[s]
      const limit = refs === null ? contextLength - maxTokens : (readTokens ?? contextLength - maxTokens)
      const where = `the protocol ${protocol.name}, round ${r + 1} ("${name}")`
      if (limit < 1 || limit + maxTokens > contextLength) {
        throw new UserError(
          `In ${where}, a prompt of ${Math.max(limit, 0)} tokens and a text of ${maxTokens} do not fit the model's context ` +
            `of ${contextLength}: lower board.readTokens, or the round's tokens.`,
        )
      }
      const seen = refs?.map(() => '') ?? null
      const read = refs?.reduce((sum, [round]) => sum + rounds[round].maxTokens, 0) ?? 0
      for (const problem of longest) {
        const chat = protocol.rounds[r].prompt(problem, seatView(protocol, problem, seat), seen)
        const size = tokenizer.chat(chat).length + read
        if (size <= limit) continue
        throw new UserError(
          `In ${where}, problem ${problem.id} makes a prompt of ${size} tokens` +
            `${refs === null ? '' : ` with ${refs.length} posts to read`}, above the limit of ${limit} (context ` +
            `${contextLength}, texts ${maxTokens}): lower board.noteTokens or board.replyTokens` +
            `${refs === null || readTokens === null ? '' : ', raise board.readTokens'} or leave this problem out.`,
        )
      }
    }
  }
}
