/**
 * What two seeds can and cannot say: the reference's published figures (docs/reference-results.json) through this
 * project's own interval.
 *
 *   npx tsx scripts/reanalyse-reference.ts     writes docs/reference-reanalysed.md
 *
 * The figures are means and intervals, not rollouts, so what the interval needs is bounded from them rather than
 * measured; every conclusion is given for both bounds.
 */

import { readFileSync, writeFileSync } from 'node:fs'
import { chiSquareQuantile, normalQuantile, tQuantile } from '../src/stats/distributions.ts'
import { mean, variance } from '../src/stats/estimate.ts'
import { halfWidth, pValue, type Spread } from '../src/stats/interval.ts'
import { type Components, detectableEffect, fewestSeeds, plan, predict } from '../src/stats/power.ts'
import { table } from './markdown.ts'

interface Arm {
  perSeed: number[]
  ci95: [number, number]
}
interface Reference {
  holdout: number
  copies: number
  arms: {
    base: { passAt1: number; ci95: [number, number] }
    baseSharedBoard: { passAt1: number }
    baseline: Arm
    recipe: Arm
  }
  delta: { firstSeedOnly: number; ci95: [number, number] }
  checks: { runStd: number; baseReruns: number }
}
const reference: Reference = JSON.parse(readFileSync('docs/reference-results.json', 'utf8'))
const { arms, holdout: problems, copies: rollouts, checks } = reference
const seeds = arms.baseline.perSeed.length

const signed = (x: number): string => `${x < 0 ? '-' : '+'}${Math.abs(x).toFixed(3)}`
const span = (centre: number, half: number): string => `[${signed(centre - half)}, ${signed(centre + half)}]`
const percent = (x: number): string => `${(100 * x).toFixed(0)}%`

// The published interval is of one seed against one seed, over problems: its variance is
// [armByProblem + 2 (seedByProblem + rollout / rollouts)] / problems.
const delta = mean(arms.recipe.perSeed) - mean(arms.baseline.perSeed)
const standardError = ([low, high]: [number, number]): number => (high - low) / (2 * normalQuantile(0.975))
const onePair = standardError(reference.delta.ci95) ** 2
// Re-running one policy on the same problems: rollout / (rollouts problems).
const rerun = checks.runStd ** 2
const bounds = [
  { name: 'trainings differ in which problems they solve by luck of the seed alone', cell: onePair / 2 },
  { name: 'by the arm alone: seeds add nothing but rollout noise', cell: rerun },
].map(({ name, cell }) => {
  const armByProblem = onePair - 2 * cell
  const spread: Spread = {
    problems: { variance: armByProblem + (2 * cell) / seeds, df: problems - 1 },
    seeds: {
      variance: (variance(arms.baseline.perSeed) + variance(arms.recipe.perSeed)) / seeds,
      floor: (2 * cell) / seeds,
      df: 2 * (seeds - 1),
    },
  }
  const components: Components = {
    rollout: rerun * rollouts * problems,
    seedByProblem: (cell - rerun) * problems,
    armByProblem: armByProblem * problems,
    seed: Math.max(0, (variance(arms.baseline.perSeed) + variance(arms.recipe.perSeed)) / 2 - cell),
  }
  return { name, spread, components, half: halfWidth(spread), p: pValue(delta, spread) }
})

const band = (nA: number, nB: number): number =>
  tQuantile(0.975, checks.baseReruns - 1) * checks.runStd * Math.sqrt(1 / nA + 1 / nB)
const { seeds: seen } = bounds[0].spread
// Largest spread between seeds under which so small an observed one has a chance of at least 5%.
const largestSpread = Math.sqrt(
  Math.max(
    0,
    (seen!.variance * seen!.df) / chiSquareQuantile(0.05, seen!.df) - bounds[1].spread.seeds!.floor,
  ),
)
const pairs = arms.recipe.perSeed.flatMap((r, i) =>
  arms.baseline.perSeed.map((b, j) => ({ pair: `recipe ${17 + i} - baseline ${17 + j}`, delta: r - b })),
)
const training = (() => {
  const gain = mean(arms.baseline.perSeed) - arms.base.passAt1
  // As if the problems were not shared: an upper bound of the variance of a difference on shared problems.
  const spread: Spread = {
    problems: {
      variance: standardError(arms.base.ci95) ** 2 + standardError(arms.baseline.ci95) ** 2,
      df: problems - 1,
    },
    seeds: { variance: seen!.variance / 2, floor: 0, df: seen!.df },
  }
  return { gain, half: halfWidth(spread) }
})()
const boardAlone = arms.baseSharedBoard.passAt1 - arms.base.passAt1
const assumed = 0.02
const usual = bounds.map(({ components }) => ({ ...components, seed: assumed ** 2 }))
const sizes = { problems, seeds, rollouts }
const options = { baseRuns: checks.baseReruns }
const widest = Math.max(...bounds.map(({ half }) => Math.abs(delta) + half))

const text = `# The reference's figures, analysed again

Written by \`npx tsx scripts/reanalyse-reference.ts\` from \`docs/reference-results.json\`, the figures published with
the reference experiment: ${problems} held-out problems, ${rollouts} replies a problem, seeds 17 and 18 in each arm, ${checks.baseReruns} evaluations of the
untrained base. No figure below is typed by hand.

## What was reported

${signed(reference.delta.firstSeedOnly)} [${reference.delta.ci95.map(signed).join(', ')}], flat, "across both seeds". That is seed 17 against seed 17. The four pairs of one seed against one are

${table(
  ['pair', 'difference'],
  pairs.map(({ pair, delta }) => [pair, signed(delta)]),
)}

so which seeds are paired decides even the sign. Over all seeds the difference is **${signed(delta)}**.

## The interval that two seeds allow

The published interval resamples problems only. Each arm also has a spread between seeds: the seed means differ by
${Math.abs(arms.baseline.perSeed[1] - arms.baseline.perSeed[0]).toFixed(3)} in the baseline and ${Math.abs(arms.recipe.perSeed[1] - arms.recipe.perSeed[0]).toFixed(3)} in the recipe. With ${seen!.df} degrees of freedom that says little: a true
standard deviation between seeds of anything from 0 to ${largestSpread.toFixed(3)} (one-sided 95%) would show as little. The rollouts
are not published, so how much of the pair's variance a second seed averages away is bounded from both sides:

${table(
  ['if', 'difference', '95% interval', 'p'],
  bounds.map(({ name, half, p }) => [name, signed(delta), span(delta, half), p.toFixed(2)]),
)}

- **Verdict: unresolved.** Not moved: 0 is well inside. Not flat either: effects up to ${widest.toFixed(2)} in size are not excluded, so
  "flat" is only true of effects larger than that.
- Half-widths of ${bounds.map(({ half }) => half.toFixed(3)).join(' and ')}, where problems alone with all seeds pooled would give ${bounds
  .map(({ spread }) => halfWidth({ ...spread, seeds: null }).toFixed(3))
  .join(' and ')}: the rest is the price of
  having two seeds to learn their spread from.

## What the experiment could have seen

With the variances above and a spread between seeds of ${assumed} (none is measurable from these figures; the observed one
is ${Math.sqrt(mean([variance(arms.baseline.perSeed), variance(arms.recipe.perSeed)])).toFixed(3)} with rollout noise in it):

${table(
  ['if', 'smallest effect at 80% power', 'chance to find 0.03', '0.06', '0.10'],
  bounds.map(({ name }, i) => [
    name,
    detectableEffect(usual[i], sizes, options)?.toFixed(3) ?? 'none',
    ...[0.03, 0.06, 0.1].map((effect) => percent(predict(effect, usual[i], sizes, options).moved)),
  ]),
)}

What an effect of 0.05 would have needed, in the second case's variances (cheapest number of replies first):

${table(
  ['problems', 'seeds an arm', 'replies a problem', 'power'],
  plan(0.05, usual[1], options)
    .slice(0, 5)
    .map((p) => [`${p.problems}`, `${p.seeds}`, `${p.rollouts}`, percent(p.power)]),
)}

Seeds an arm to resolve a difference of 0.05 on the same ${problems} problems: ${bounds
  .map((_, i) => fewestSeeds(0.05, usual[i], sizes, options) ?? 'more than 64')
  .join(' in the first case, ')} in the second.

## What can be said

- **Training helped.** Baseline over base: ${signed(training.gain)}, at worst ${span(training.gain, training.half)} (problems treated as not shared, which is too
  wide), against a noise band of ${band(seeds, checks.baseReruns).toFixed(3)}.
- **Whether reading every note helped training is open**: ${signed(delta)}, anywhere from ${signed(delta - Math.max(...bounds.map(({ half }) => half)))} to ${signed(delta + Math.max(...bounds.map(({ half }) => half)))}.
- **The shared board without training** (${signed(boardAlone)}) is inside the noise band of one run against one, ${band(1, 1).toFixed(3)}: no finding.
`
writeFileSync('docs/reference-reanalysed.md', text)
