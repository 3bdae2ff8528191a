/**
 * Does the verdict hold its level? Simulated experiments with a known truth, compared as a run compares them.
 *
 *   npm run calibrate                        writes docs/calibration.md and bench/results/calibration.json (about an
 *                                            hour on one thread)
 *   npm run calibrate -- --only families     one part anew, or several by commas; the others' figures are kept
 *   npm run calibrate -- --sims 50           a quick look, printed and written nowhere
 *   npm run calibrate -- --report            docs/calibration.md again from the results there are
 *
 * Everything is seeded: the same command gives the same tables.
 */

import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import {
  compareRules,
  familyErrors,
  familyPower,
  familySequence,
  familyWidths,
  otherSizes,
  trainingErrors,
} from './calibration/families.ts'
import { type Figures, type Results, report } from './calibration/report.ts'
import { compareMethods, grid, sequence, stress } from './calibration/two-arms.ts'

const RESULTS = 'bench/results/calibration.json'

type Part = keyof Figures

const started = performance.now()
const note = (text: string) =>
  process.stderr.write(`${((performance.now() - started) / 1000).toFixed(0)} s  ${text}\n`)

const parts: { [P in Part]: (sims: number) => Figures[P] } = {
  methods: compareMethods,
  grid: (sims) => grid(sims, (done, of) => done % 24 === 0 && note(`grid ${done}/${of}`)),
  stress,
  sequence,
  rules: compareRules,
  families: (sims) => familyErrors(sims, note),
  familyPower: (sims) => familyPower(sims, note),
  widths: familyWidths,
  familySequence,
  otherSizes,
  training: trainingErrors,
}

/** Experiments a setting. */
const usual: Record<Part, number> = {
  methods: 500,
  grid: 1000,
  stress: 2000,
  sequence: 2000,
  rules: 400,
  families: 2000,
  familyPower: 200,
  widths: 60,
  familySequence: 1000,
  otherSizes: 400,
  training: 200,
}

function run(names: readonly Part[], simsOf: (part: Part) => number): Partial<Results> {
  const sims: Partial<Results['sims']> = {}
  const figures: Partial<Figures> = {}
  const one = <P extends Part>(part: P) => {
    note(part)
    sims[part] = simsOf(part)
    figures[part] = parts[part](sims[part]) as Figures[P]
  }
  names.forEach(one)
  note('done')
  return { sims: sims as Results['sims'], ...figures }
}

const { values } = parseArgs({
  options: { sims: { type: 'string' }, only: { type: 'string' }, report: { type: 'boolean' } },
})
const all = Object.keys(parts) as Part[]
const asked = values.only?.split(',') ?? all
const unknown = asked.find((name) => !all.includes(name as Part))
if (unknown) throw new Error(`There is no part ${unknown}: the parts are ${all.join(', ')}.`)
const names = asked as Part[]
const kept = (): Results => JSON.parse(readFileSync(RESULTS, 'utf8'))
if (values.sims) {
  const found = run(names, () => Number(values.sims))
  process.stdout.write(values.only ? `${JSON.stringify(found, null, 1)}\n` : report(found as Results))
} else {
  if (!values.report) {
    const found = run(names, (part) => usual[part])
    const before = values.only ? kept() : undefined
    const results = { ...before, ...found, sims: { ...before?.sims, ...found.sims } }
    writeFileSync(RESULTS, `${JSON.stringify(results, null, 1)}\n`)
  }
  const results = kept()
  const missing = all.filter((part) => !(part in results))
  if (missing.length === 0) writeFileSync('docs/calibration.md', report(results))
  else note(`docs/calibration.md waits for ${missing.join(', ')}`)
}
