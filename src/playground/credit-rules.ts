/** The eight rules of credit as the page offers them: the rule itself, its line of TypeScript, and what it pays in words. */
import {
  type Credit,
  leaveOneOut,
  mix,
  ownAnswer,
  readersOf,
  readersOnly,
  subsets,
  team,
} from '../train/credit/index.ts'
import type { TrainChoices } from '../train/options.ts'
import type { RuleName } from './settings.ts'

interface Rule {
  title: string
  /** What a note earns. A final reply earns 1 where it is right, under every rule. */
  pays: string
  make: () => Credit
  /** The same in TypeScript, and what it takes from the package. */
  code: string
  imports: readonly string[]
  /** Of training: what the rule needs to compare notes with. Twelve boards a step all the same. */
  train?: TrainChoices
}

export const rules: Readonly<Record<RuleName, Rule>> = {
  readersOnly: {
    title: 'Pay readers alone',
    pays: 'A note earns nothing and is not trained: only reading is learned.',
    make: readersOnly,
    code: 'readersOnly()',
    imports: ['readersOnly'],
  },
  ownAnswer: {
    title: 'Pay a note for its own answer',
    pays: 'A note earns 1 where its own answer is right, whatever its readers make of it.',
    make: ownAnswer,
    code: 'ownAnswer()',
    imports: ['ownAnswer'],
  },
  team: {
    title: 'Pay the team',
    pays: 'All notes of a board earn the share of its readers that are right. Two boards of each problem are compared.',
    make: team,
    code: 'team()',
    imports: ['team'],
    train: { boards: 2, problemsPerStep: 6 },
  },
  readersOf: {
    title: 'Pay a note for its readers',
    pays: 'A note earns the share of its own readers that are right. Where all read all, all notes earn alike.',
    make: readersOf,
    code: 'readersOf()',
    imports: ['readersOf'],
  },
  replay: {
    title: 'Leave one out, played again',
    pays: 'A note earns what its readers lose when they read again without it. Exact, and the slowest.',
    make: () => leaveOneOut({ by: 'replay' }),
    code: "leaveOneOut({ by: 'replay' })",
    imports: ['leaveOneOut'],
  },
  rescore: {
    title: 'Leave one out, estimated',
    pays: 'The same, estimated from how likely each reply would have been without the note.',
    make: () => leaveOneOut({ by: 'rescore' }),
    code: "leaveOneOut({ by: 'rescore' })",
    imports: ['leaveOneOut'],
  },
  subsets: {
    title: 'Random boards',
    pays: 'In training each reader is shown some of the notes at random; a note earns the difference that showing it made.',
    make: subsets,
    code: 'subsets()',
    imports: ['subsets'],
  },
  mix: {
    title: 'A mix',
    pays: 'What is lost without the note, estimated, and a quarter of what its own answer earns.',
    make: () => mix([1, leaveOneOut({ by: 'rescore' })], [0.25, ownAnswer()]),
    code: "mix([1, leaveOneOut({ by: 'rescore' })], [0.25, ownAnswer()])",
    imports: ['leaveOneOut', 'mix', 'ownAnswer'],
  },
}
