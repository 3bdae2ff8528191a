/** Experiments that are worth a minute, each a question, by what it sets. Data alone. */
import { firstSettings, type Settings } from './settings.ts'
import { presets } from './wiring.ts'

export const questions: readonly { title: string; says: string; set: Pick<Settings, 'world' | 'arms'> }[] = [
  {
    title: 'Pay the writers?',
    says: 'Clues, everybody reads all: readers alone are paid, or the whole team is.',
    set: { world: firstSettings.world, arms: firstSettings.arms },
  },
  {
    title: 'Read each other?',
    says: 'Word problems: one’s own note alone, or all notes. The project’s default experiment.',
    set: {
      world: 'word-problems',
      arms: {
        baseline: { reads: presets.own, rounds: 2, credit: 'readersOnly' },
        recipe: { reads: presets.shared, rounds: 2, credit: 'readersOnly' },
      },
    },
  },
  {
    title: 'One neighbour, or all?',
    says: 'Clues, the team is paid: a ring, or everybody reads all.',
    set: {
      world: 'clues',
      arms: {
        baseline: { reads: presets.ring, rounds: 2, credit: 'team' },
        recipe: { reads: presets.shared, rounds: 2, credit: 'team' },
      },
    },
  },
  {
    title: 'A second look?',
    says: 'Word problems: one round of reading, or two.',
    set: {
      world: 'word-problems',
      arms: {
        baseline: { reads: presets.shared, rounds: 2, credit: 'ownAnswer' },
        recipe: { reads: presets.shared, rounds: 3, credit: 'ownAnswer' },
      },
    },
  },
]
