/**
 * Runs cells of the map of credit (experiments/credit-map.ts): one training and its evaluation for each world, rule and
 * seed, and the untrained model once a world. Each finished cell is one line of a file, so that a study can be cut into
 * shards, stopped, and gone on with on any machine:
 *
 *   npx tsx bench/credit-map.ts --out cells.jsonl --seeds 1-20 [--worlds clues,insight] [--rules readersOnly,rescore]
 *       [--shard 3/16] [--steps 40] [--holdout 240] [--reads ring] [--rounds 3] [--copies 8] [--tokens 75000]
 *
 * `--tokens` ends each training after so many completion tokens, whatever steps that takes, so that rules are compared at
 * what they cost. A cell that the file has is not run again. docs/credit-map.md is made from these lines (scripts/credit-map.ts).
 */
import { parseArgs } from 'node:util'
import { creditMap, readings, rules, worlds } from '../experiments/credit-map.ts'
import { overrideExperiment } from '../src/experiment/config.ts'
import { cutTask } from '../src/experiment/tasks.ts'
import { cellsOf, runCells } from './credit-cells.ts'
import { usual } from './credit-map-cell.ts'

const { values } = parseArgs({
  options: {
    out: { type: 'string' },
    worlds: { type: 'string', default: Object.keys(worlds).join() },
    rules: { type: 'string', default: ['base', ...Object.keys(rules)].join() },
    seeds: { type: 'string', default: '1-20' },
    shard: { type: 'string', default: '1/1' },
    steps: { type: 'string', default: '40' },
    holdout: { type: 'string', default: '240' },
    reads: { type: 'string', default: usual.reads },
    rounds: { type: 'string', default: `${usual.rounds}` },
    copies: { type: 'string', default: `${usual.copies}` },
    tokens: { type: 'string' },
  },
})
if (!values.out) throw new Error('--out FILE is needed: where the cells are kept')
if (!readings[values.reads])
  throw new Error(`--reads has ${values.reads}: give one of ${Object.keys(readings).join(', ')}`)
const budget = values.tokens === undefined ? null : Number(values.tokens)
/** With a budget of tokens, steps are not what ends a training. */
const steps = budget === null ? Number(values.steps) : 10_000
const board = { reads: values.reads, rounds: Number(values.rounds), copies: Number(values.copies), budget }

await runCells(cellsOf(values, board), values.out, ({ world, rule, seed }) => {
  const whole = creditMap(world, [seed], board)
  const arm = rule === 'base' ? 'readersOnly' : rule
  return overrideExperiment(whole, {
    task: cutTask(worlds[world], { holdout: Number(values.holdout) }),
    arms: {
      [arm]: {
        ...whole.choices.arms![arm],
        train: { ...whole.choices.arms![arm].train, steps, tokens: budget },
      },
    },
    baseline: arm,
    contrasts: [],
  })
})
