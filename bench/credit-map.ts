/**
 * Runs cells of the map of credit (experiments/credit-map.ts): one training and its evaluation for each world, rule and
 * seed, and the untrained model once a world. Each finished cell is one line of a file, so that a study can be cut into
 * shards, stopped, and gone on with on any machine:
 *
 *   npx tsx bench/credit-map.ts --out cells.jsonl --seeds 1-20 [--worlds clues,insight] [--rules readersOnly,rescore]
 *       [--shard 3/16] [--steps 40] [--holdout 240]
 *
 * A cell that the file has is not run again. docs/credit-map.md is made from these lines (scripts/credit-map.ts).
 */
import { parseArgs } from 'node:util'
import { creditMap, rules, worlds } from '../experiments/credit-map.ts'
import { overrideExperiment } from '../src/experiment/config.ts'
import { cutTask } from '../src/experiment/tasks.ts'
import { cellsOf, runCells } from './credit-cells.ts'

const { values } = parseArgs({
  options: {
    out: { type: 'string' },
    worlds: { type: 'string', default: Object.keys(worlds).join() },
    rules: { type: 'string', default: ['base', ...Object.keys(rules)].join() },
    seeds: { type: 'string', default: '1-20' },
    shard: { type: 'string', default: '1/1' },
    steps: { type: 'string', default: '40' },
    holdout: { type: 'string', default: '240' },
  },
})
if (!values.out) throw new Error('--out FILE is needed: where the cells are kept')
const steps = Number(values.steps)

await runCells(cellsOf(values), values.out, ({ world, rule, seed }) => {
  const whole = creditMap(world, [seed])
  const arm = rule === 'base' ? 'readersOnly' : rule
  return overrideExperiment(whole, {
    task: cutTask(worlds[world], { holdout: Number(values.holdout) }),
    arms: { [arm]: { ...whole.choices.arms![arm], train: { ...whole.choices.arms![arm].train, steps } } },
    baseline: arm,
    contrasts: [],
  })
})
