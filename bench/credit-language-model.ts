/**
 * The map of credit's sharpest rules on a language model: SmolLM2-135M-Instruct, given a start by bench/warm-start.ts, on
 * the same problems of SVAMP in two worlds. `dealt`: each writer knows the question and some of the sentences before it,
 * so that nobody can do it alone; `whole`: each knows all of them. One line a cell, as bench/credit-map.ts has it:
 *
 *   npx tsx bench/credit-language-model.ts --model warm --task warm/problems.jsonl --out cells.jsonl --device cuda
 *       [--worlds dealt,whole] [--rules base,readersOnly,team,replay] [--seeds 1-8] [--shard 1/4] [--threads 4]
 *       [--steps 40] [--train 109] [--holdout 120]
 *
 * What is expected of the cells stands in bench/credit-language-model-predictions.json.
 */
import { parseArgs } from 'node:util'
import { rules } from '../experiments/credit-map.ts'
import { board } from '../src/board/protocols.ts'
import { shared } from '../src/board/sights.ts'
import type { Device } from '../src/engine/onnx/devices.ts'
import { defineExperiment } from '../src/experiment/config.ts'
import { fromFile } from '../src/tasks/from-file.ts'
import type { Problem, Task } from '../src/tasks/types.ts'
import { cellsOf, runCells } from './credit-cells.ts'

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    task: { type: 'string' },
    out: { type: 'string' },
    device: { type: 'string', default: 'cpu' },
    threads: { type: 'string' },
    worlds: { type: 'string', default: 'dealt,whole' },
    rules: { type: 'string', default: 'base,readersOnly,team,replay' },
    seeds: { type: 'string', default: '1-8' },
    shard: { type: 'string', default: '1/1' },
    steps: { type: 'string', default: '40' },
    train: { type: 'string', default: '109' },
    holdout: { type: 'string', default: '120' },
  },
})
const { model, task, out } = values
if (!model || !task || !out) throw new Error('give --model, --task and --out')
const steps = Number(values.steps)

const dealt = fromFile(task, { train: Number(values.train), holdout: Number(values.holdout) })
const worlds: Readonly<Record<string, Task>> = { dealt, whole: wholeTask(dealt) }
const known: Readonly<Partial<Record<string, (typeof rules)[keyof typeof rules]>>> = rules

await runCells(cellsOf(values), out, ({ world, rule, seed }) => {
  const arm = rule === 'base' ? 'readersOnly' : rule
  const chosen = known[arm]
  if (!chosen) throw new Error(`--rules has ${rule}: give some of base, ${Object.keys(rules).join(', ')}`)
  if (!worlds[world]) throw new Error(`--worlds has ${world}: give some of ${Object.keys(worlds).join(', ')}`)
  return defineExperiment({
    model,
    task: worlds[world],
    // As in docs/gpu.md's experiment.
    board: { copies: 4, noteTokens: 64, replyTokens: 64 },
    evaluation: { problemsAtOnce: 120 },
    arms: { [arm]: { ...chosen, protocol: board({ reads: shared }), train: { ...trainOf(chosen), steps } } },
    baseline: arm,
    contrasts: [],
    seeds: [seed],
    engine: {
      device: values.device as Device | 'auto',
      ...(values.threads && { threads: Number(values.threads) }),
    },
  })
})

function trainOf(rule: (typeof rules)[keyof typeof rules]) {
  return 'train' in rule ? rule.train : {}
}

/** The same problems told to everybody: what was dealt stands before the question again. */
function wholeTask(task: Task): Task {
  const whole = ({ id, question, gold, parts = [] }: Problem): Problem => ({
    id,
    question: [...parts, question].join(' '),
    gold,
  })
  return {
    name: `${task.name}, whole`,
    config: { ...task.config, whole: true },
    async load() {
      const { train, holdout, dropped } = await task.load()
      return { train: train.map(whole), holdout: holdout.map(whole), dropped }
    },
  }
}
