// The map of credit: which credit makes writers write for their readers, in which world? One experiment for each world,
// with an arm for each rule; the arms of a world are compared with readers alone. docs/credit-map.md says what came out.
import {
  clues,
  defineExperiment,
  insight,
  leaveOneOut,
  mix,
  own,
  ownAnswer,
  randomOf,
  readersOf,
  readersOnly,
  ring,
  type Sight,
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

/** Who reads whom. */
export const readings: Readonly<Record<string, Sight>> = { own, shared, ring, 'random 2': randomOf(2) }

/** Notes, notes again where there are more rounds, each writer having read the ones before, and answers. */
function protocol({ reads, rounds }: { reads: string; rounds: number }) {
  const sees = readings[reads]
  const again = Array.from({ length: rounds - 2 }, (_, i) => ({
    name: `note ${i + 2}`,
    sees,
    tokens: 'note' as const,
  }))
  const first = { name: 'note', tokens: 'note' as const }
  const last = { name: 'reply', sees, tokens: 'reply' as const }
  return { name: `${reads}, ${rounds} rounds`, rounds: [first, ...again, last] }
}

export const creditMap = (
  world: string,
  seeds: number[] = [17, 18],
  { reads = 'shared', rounds = 2, copies = 4 } = {},
) =>
  defineExperiment({
    task: worlds[world],
    board: { copies },
    arms: Object.fromEntries(
      Object.entries(rules).map(([name, rule]) => [name, { protocol: protocol({ reads, rounds }), ...rule }]),
    ),
    baseline: 'readersOnly',
    seeds,
    engine: { threads: 1 },
  })

export default creditMap('clues')
