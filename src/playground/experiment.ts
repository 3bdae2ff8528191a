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
import type { TrainChoices } from '../train/options.ts'
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

const armOf = (arm: ArmSettings): ArmChoices => ({
  protocol: protocolOf(arm),
  credit: rules[arm.credit].make(),
})

/** What either arm's rule needs, both have: so that they are trained on the same problems, step by step. */
const trainOf = ({ steps, arms }: Settings): TrainChoices => ({
  steps,
  ...rules[arms.baseline.credit].train,
  ...rules[arms.recipe.credit].train,
})

/** The experiment; everything that is not set here is the library's default. */
export function choicesOf(settings: Settings): ExperimentChoices {
  const { world, holdout, seeds, arms, device } = settings
  return {
    task: taskOf(world, holdout),
    arms: Object.fromEntries(armNames.map((name) => [name, armOf(arms[name])])),
    train: trainOf(settings),
    seeds: [...seeds],
    engine: { device },
  }
}

/** A file for `message-board run` that defines the same experiment. */
export function codeOf(settings: Settings): string {
  const { world, holdout, seeds, arms } = settings
  const used = new Set(['defineExperiment', 'grpo', worlds[world].code])
  const lines = armNames.map((name) => {
    const { reads, rounds, credit } = arms[name]
    const { code, imports } = rules[credit]
    const preset = presetOf(reads)
    const sight = preset ?? `named('${wiringName(reads)}', (seat) => ${JSON.stringify(reads)}[seat])`
    for (const one of [...imports, preset ?? 'named', rounds === 2 ? 'board' : 'debate']) used.add(one)
    const protocol =
      rounds === 2 ? `board({ reads: ${sight} })` : `debate({ turns: ${rounds}, sees: ${sight} })`
    return `    ${name}: { protocol: ${protocol}, credit: ${code} },`
  })
  const train = Object.entries(trainOf(settings))
    .map(([key, value]) => `${key}: ${value}`)
    .join(', ')
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
    `  train: grpo({ ${train} }),`,
    `  seeds: [${seeds.join(', ')}],`,
    '})',
    '',
  ].join('\n')
}
