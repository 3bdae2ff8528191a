/** `message-board init`: writes an experiment file to begin with, which runs as it is. */
import { writeFile } from 'node:fs/promises'
import { UserError } from '../errors.ts'
import { smallPolicySettings } from '../experiment/defaults.ts'
import { tell } from './terminal.ts'

/** Where it goes unless told. */
const FILE = 'experiment.ts'

/** @throws UserError where there is such a file already, or none can be written. */
export async function initCommand(path = FILE): Promise<void> {
  if (!/\.[cm]?[jt]s$/.test(path)) {
    throw new UserError(
      `${path} is no name of an experiment file: give one that ends in .ts, such as ${FILE}.`,
    )
  }
  try {
    await writeFile(path, experimentText(path), { flag: 'wx' })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new UserError(
      code === 'EEXIST'
        ? `${path} is there already: give another name, or run it with message-board run ${path}.`
        : `${path} cannot be written (${code}): give a place that can.`,
    )
  }
  tell(`${path} is written. Change what you like, and run it: npx message-board run ${path}\n`)
}

/** The default experiment in a file, each setting with what it decides. */
export function experimentText(path: string): string {
  const { problems, board, train, evaluation, seeds } = smallPolicySettings
  return `// An experiment: two arms that differ in one thing, trained over several seeds and compared on held-out problems.
//
// What could it see, and how long would it take?
//   npx message-board power ${path}
// A first look, in less than a minute:
//   npx message-board run ${path} --steps 4 --holdout 20 --seeds 17 --out runs/look
// All of it; the same command goes on after Ctrl-C:
//   npx message-board run ${path}
//
// Whatever you leave out has its default. What stands behind // is a default, or another choice.
import { defineExperiment, grpo, own, shared, wordProblems } from 'message-board'

export default defineExperiment({
  // Whose copies are trained: a folder, or a model on the hub. The small policy that comes along when left out.
  // model: 'Qwen/Qwen2.5-0.5B-Instruct',

  // Where the problems come from. Others: gsm8k(), math(), svamp(), clues(), insight(), fromFile('problems.jsonl').
  task: wordProblems({ train: ${problems.train}, holdout: ${problems.holdout} }),

  // How many copies there are, and how long a note and a reply may be, in tokens.
  board: { copies: ${board.copies}, noteTokens: ${board.noteTokens}, replyTokens: ${board.replyTokens} },

  // What is compared. Each arm says what is different in it; the first, or \`baseline\`, is what the others are held against.
  arms: {
    // Each copy reads its own note and answers again.
    baseline: { reads: own },
    // Each copy reads everybody's.
    recipe: { reads: shared },
    // Others: \`ring\`, \`star\`, \`chain\`, a function of your own, a \`protocol: debate({ turns: 3 })\`, a rule that pays
    // writers, \`credit: leaveOneOut()\`, or other training, \`train: { learningRate: 5e-4 }\`.
  },

  // How each arm is trained: GRPO on LoRA.
  train: grpo({
    steps: ${train.steps},
    problemsPerStep: ${train.problemsPerStep},
    learningRate: ${train.learningRate},
    lora: { rank: ${train.lora.rank}, alpha: ${train.lora.alpha} },
  }),

  // One training of each arm for each. Two see little; more narrow the interval.
  seeds: [${seeds.join(', ')}],

  // Evaluations of the untrained model, whose spread is the noise floor.
  // evaluation: { baseRuns: ${evaluation.baseRuns} },
})
`
}
