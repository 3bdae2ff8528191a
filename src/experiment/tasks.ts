/** Which task a name on the command line means, and how an experiment's own task is made smaller. Reads no problems. */

import { UserError } from '../errors.ts'
import { join } from '../platform/path.ts'
import { clues } from '../tasks/clues.ts'
import { fromFile } from '../tasks/from-file.ts'
import { insight } from '../tasks/insight.ts'
import { gsm8k, math, svamp } from '../tasks/named.ts'
import type { Problem, Task } from '../tasks/types.ts'
import { wordProblems } from '../tasks/word-problems.ts'
import { referenceSettings, type Settings } from './defaults.ts'

type Sizes = Settings['problems']

/**
 * A generated world, `word-problems`, `clues` or `insight`; `gsm8k`, `svamp` or `math`; or a path: a file of rows
 * (.jsonl, .parquet), SVAMP.json, or a folder with GSM8K's train.jsonl and test.jsonl.
 */
export function taskNamed(name: string, sizes: Partial<Sizes>): Task {
  const size = { ...referenceSettings.problems, ...sizes }
  const world = { 'word-problems': wordProblems, clues, insight }[name]
  if (world !== undefined) return world(size)
  if (name === 'gsm8k') return gsm8k(size)
  if (name === 'svamp') return svamp(size)
  if (name === 'math') return math(size)
  if (/\.(jsonl|parquet)$/.test(name)) return fromFile(name, size)
  if (name.endsWith('SVAMP.json')) return svamp({ ...size, path: name })
  if (name.endsWith('.json')) {
    throw new UserError(
      `${name} is one JSON value: give a task's rows one a line, as .jsonl, or as .parquet.`,
    )
  }
  if (/[\\/]/.test(name)) return gsm8k({ ...size, folder: join(name) })
  throw new UserError(
    `There is no task "${name}": give word-problems, clues, insight, gsm8k, svamp, math, a .jsonl or .parquet file, a SVAMP.json, or ` +
      "./folder with GSM8K's train.jsonl and test.jsonl.",
  )
}

/** The first problems of a task: it has shuffled them already. */
export function cutTask(task: Task, sizes: Partial<Sizes>): Task {
  const first = (problems: Problem[], set: keyof Sizes) => {
    const size = sizes[set] ?? problems.length
    if (size > problems.length) {
      throw new UserError(
        `--${set} asks for ${size} problems and the experiment's task ${task.name} gives ${problems.length}: ` +
          'ask for fewer, or for more where the experiment names its task.',
      )
    }
    return problems.slice(0, size)
  }
  return {
    name: task.name,
    config: { ...task.config, ...sizes },
    async load() {
      const { train, holdout, dropped } = await task.load()
      return { train: first(train, 'train'), holdout: first(holdout, 'holdout'), dropped }
    },
  }
}
