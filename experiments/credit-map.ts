// The map of credit: which credit makes writers write for their readers, in which world? One experiment for each world,
// with an arm for each rule; the arms of a world are compared with readers alone. docs/credit-map.md says what came out.
import {
  board,
  clues,
  defineExperiment,
  insight,
  leaveOneOut,
  mix,
  ownAnswer,
  readersOf,
  readersOnly,
  shared,
  subsets,
  type Task,
  team,
  wordProblems,
} from 'message-board'

const sizes = { train: 512, holdout: 240 }

export const worlds: Readonly<Record<string, Task>> = {
  'word-problems': wordProblems(sizes),
  clues: clues(sizes),
  insight: insight(sizes),
}

/** Twelve boards a step each; the team's are of six problems, since it compares two boards of one. */
export const rules = {
  readersOnly: { credit: readersOnly() },
  ownAnswer: { credit: ownAnswer() },
  team: { credit: team(), train: { boards: 2, problemsPerStep: 6 } },
  readersOf: { credit: readersOf() },
  subsets: { credit: subsets() },
  replay: { credit: leaveOneOut({ by: 'replay' }) },
  rescore: { credit: leaveOneOut({ by: 'rescore' }) },
  mix: { credit: mix([1, leaveOneOut({ by: 'rescore' })], [0.25, ownAnswer()]) },
}

export const creditMap = (world: string, seeds: number[] = [17, 18]) =>
  defineExperiment({
    task: worlds[world],
    // What the stored cells were made with; the default's notes are two tokens shorter.
    board: { copies: 4, noteTokens: 48, replyTokens: 104 },
    arms: Object.fromEntries(
      Object.entries(rules).map(([name, rule]) => [name, { protocol: board({ reads: shared }), ...rule }]),
    ),
    baseline: 'readersOnly',
    seeds,
    engine: { threads: 1 },
  })

export default creditMap('clues')
