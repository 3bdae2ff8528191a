/** What a visitor has set, as the experiment that the library runs, and as the TypeScript that makes the same one. Pure. */
import type { ProtocolChoices } from '../board/protocol.ts'
import { board, debate } from '../board/protocols.ts'
import type { ArmChoices } from '../experiment/arms.ts'
import type { ExperimentChoices } from '../experiment/config.ts'
import { clues } from '../tasks/clues.ts'
import { insight } from '../tasks/insight.ts'
import { referenceSizes } from '../tasks/sizes.ts'
import type { Task } from '../tasks/types.ts'
import { wordProblems } from '../tasks/word-problems.ts'
import { rules } from './credit-rules.ts'
import { type ArmSettings, armNames, type Settings, type WorldName } from './settings.ts'
import { presetOf, sightOf, wiringName } from './wiring.ts'

const worlds: Readonly<Record<WorldName, { make: (sizes: { holdout?: number }) => Task; code: string }>> = {
  clues: { make: clues, code: 'clues' },
  'word-problems': { make: wordProblems, code: 'wordProblems' },
  insight: { make: insight, code: 'insight' },
}

/** A world's problems: the experiment's training set, and so many held out. */
export const taskOf = (world: WorldName, holdout?: number): Task =>
  worlds[world].make({ ...referenceSizes, ...(holdout !== undefined && { holdout }) })

/** Notes and replies; with more rounds, everybody answers and then reads the answers of the round before. */
export function protocolOf({ reads, rounds }: Pick<ArmSettings, 'reads' | 'rounds'>): ProtocolChoices {
  const sees = sightOf(reads)
  return rounds === 2 ? board({ reads: sees }) : debate({ turns: rounds, sees })
}

function armOf(arm: ArmSettings): ArmChoices {
  const { make, train } = rules[arm.credit]
  return { protocol: protocolOf(arm), credit: make(), ...(train && { train }) }
}

/** The experiment; everything that is not set here is the library's default. */
export function choicesOf({ world, steps, holdout, seeds, arms }: Settings): ExperimentChoices {
  return {
    task: taskOf(world, holdout),
    arms: Object.fromEntries(armNames.map((name) => [name, armOf(arms[name])])),
    train: { steps },
    seeds: [...seeds],
  }
}

/** A file for `message-board run` that defines the same experiment. */
export function codeOf({ world, steps, holdout, seeds, arms }: Settings): string {
  const used = new Set(['defineExperiment', 'grpo', worlds[world].code])
  const lines = armNames.map((name) => {
    const { reads, rounds, credit } = arms[name]
    const { code, imports, train } = rules[credit]
    const preset = presetOf(reads)
    const sight = preset ?? `named('${wiringName(reads)}', (seat) => ${JSON.stringify(reads)}[seat])`
    for (const one of [...imports, preset ?? 'named', rounds === 2 ? 'board' : 'debate']) used.add(one)
    const protocol =
      rounds === 2 ? `board({ reads: ${sight} })` : `debate({ turns: ${rounds}, sees: ${sight} })`
    const own = train
      ? `, train: { ${Object.entries(train)
          .map(([key, value]) => `${key}: ${value}`)
          .join(', ')} }`
      : ''
    return `    ${name}: { protocol: ${protocol}, credit: ${code}${own} },`
  })
  const names = [...used].sort((a, b) => a.localeCompare(b))
  return [
    '// Run it with: npx message-board run experiment.ts',
    `import { ${names.join(', ')} } from 'message-board'`,
    '',
    'export default defineExperiment({',
    `  task: ${worlds[world].code}({ train: ${referenceSizes.train}, holdout: ${holdout} }),`,
    '  arms: {',
    ...lines,
    '  },',
    `  train: grpo({ steps: ${steps} }),`,
    `  seeds: [${seeds.join(', ')}],`,
    '})',
    '',
  ].join('\n')
}
