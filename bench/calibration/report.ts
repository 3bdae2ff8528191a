/** docs/calibration.md, from the figures of bench/results/calibration.json alone. */

import { table } from '../../scripts/markdown.ts'
import { mean } from '../../src/stats/estimate.ts'
import {
  type compareRules,
  type familyErrors,
  type familyPower,
  type familySequence,
  type familyWidths,
  type otherSizes,
  ROLLOUTS,
  rules,
  type trainingErrors,
} from './families.ts'
import {
  ARM_BY_PROBLEM,
  BASE_RUNS,
  EFFECT,
  errorNearFive,
  LEVELS,
  PROBLEM,
  SEED_BY_PROBLEM,
  type Share,
  show,
} from './simulate.ts'
import { type compareMethods, type grid, methods, type sequence, spreads, type stress } from './two-arms.ts'

/** What each part gives. */
export interface Figures {
  methods: ReturnType<typeof compareMethods>
  grid: ReturnType<typeof grid>
  stress: ReturnType<typeof stress>
  sequence: ReturnType<typeof sequence>
  rules: ReturnType<typeof compareRules>
  families: ReturnType<typeof familyErrors>
  familyPower: ReturnType<typeof familyPower>
  widths: ReturnType<typeof familyWidths>
  familySequence: ReturnType<typeof familySequence>
  otherSizes: ReturnType<typeof otherSizes>
  training: ReturnType<typeof trainingErrors>
}

export interface Results extends Figures {
  /** Simulated experiments of each setting, by the part. */
  sims: Record<keyof Figures, number>
}

export function report({
  sims,
  methods: compared,
  grid: cells,
  stress: stressed,
  sequence: looks,
  rules: ruled,
  families,
  familyPower,
  widths,
  familySequence,
  otherSizes,
  training,
}: Results): string {
  const names = Object.keys(methods)
  const worst = <T>(rows: T[], value: (row: T) => number) =>
    rows.reduce((a, b) => (value(b) > value(a) ? b : a))
  const lowCover = worst(cells, (c) => -Math.min(c.coveredAtNone.percent, c.coveredAtEffect.percent))
  const highFalse = worst(cells, (c) => c.falseMoved.percent)
  const place = (c: (typeof cells)[number]) =>
    `${c.problems} ${c.difficulty} problems, ${c.seeds} seeds, spread ${c.spread}, ${c.rollouts} rollouts`
  const covers = cells.flatMap((c) => [c.coveredAtNone.percent, c.coveredAtEffect.percent])
  const gaps = cells.map((c) => Math.abs(c.power.percent - c.predictedPower))
  const least = Math.min(...covers)
  const bySeeds = [2, 3, 5].map((seeds) => {
    const mine = cells.filter((c) => c.seeds === seeds)
    return [
      `${seeds}`,
      `${mean(mine.map((c) => c.falseMoved.percent)).toFixed(1)} (${show(worst(mine, (c) => c.falseMoved.percent).falseMoved)})`,
      `${mean(mine.map((c) => c.coveredAtNone.percent)).toFixed(1)} (${Math.min(...mine.map((c) => c.coveredAtNone.percent)).toFixed(1)})`,
      `${mean(mine.map((c) => c.coveredAtEffect.percent)).toFixed(1)} (${Math.min(...mine.map((c) => c.coveredAtEffect.percent)).toFixed(1)})`,
    ]
  })
  const summary = names.map((name) => {
    const rates = compared.map((row) => row.missed[name].percent)
    const length = (seeds: number) =>
      mean(
        compared
          .filter((row) => row.seeds === seeds && row.problems === 120)
          .map((row) => row.medianLength[name]),
      )
    return [
      name,
      mean(rates).toFixed(1),
      Math.max(...rates).toFixed(1),
      ...[2, 3, 5].map((seeds) => length(seeds).toFixed(3)),
    ]
  })
  const alike = families.filter((c) => c.pattern === 'all alike')
  const unlike = families.filter((c) => c.pattern !== 'all alike' && c.arms > 2)
  const twoUnlike = families.filter((c) => c.arms === 2 && c.pattern !== 'all alike')
  const twoAt = (problems: number) =>
    worst(
      twoUnlike.filter((c) => c.problems === problems),
      (c) => c.missed.percent,
    )
  const summaryOf = (rows: typeof families) => {
    const highest = worst(rows, (c) => c.falseMoved.percent)
    const average = (of: (row: (typeof rows)[number]) => Share) =>
      mean(rows.map((c) => of(c).percent)).toFixed(1)
    return (
      `${rows.length} settings: false moved ${average((c) => c.falseMoved)} on average, ${show(highest.falseMoved)} at worst ` +
      `(${highest.arms} arms of ${highest.seeds} seeds, ${highest.pattern}); missed ${average((c) => c.missed)}, ` +
      `${show(worst(rows, (c) => c.missed.percent).missed)} at worst.`
    )
  }
  const powerGaps = familyPower.map((c) => Math.abs(c.power.percent - c.predictedPower))
  return `# Calibration of the verdict

Written by \`npm run calibrate\` (\`bench/calibrate.ts\`); every figure also in \`bench/results/calibration.json\`.
Simulated experiments with a known truth. A rollout is right with probability sigmoid(arm + problem + arm-by-problem +
seed + seed-by-problem), normal on the logit scale with standard deviations ${PROBLEM} (problem), ${ARM_BY_PROBLEM} (arm by problem) and ${SEED_BY_PROBLEM} (seed by
problem); the seeds' deviation is set so that a seed's true pass@1 spreads by the stated amount. Easy problems: pass@1
${LEVELS.easy}; hard: ${LEVELS.hard}. Noise band from ${BASE_RUNS} evaluations of an untrained base.

## Which interval

Null experiments (both arms alike), 4 rollouts, hard problems, 30 and 120 problems, 2, 3 and 5 seeds, spread ${spreads.join(', ')};
${sims.methods} experiments a setting. _Missed_: percent of 95% intervals that exclude the true difference 0; 5 is right, with a Monte
Carlo error of ${(100 * Math.sqrt((0.05 * 0.95) / sims.methods)).toFixed(1)}. Median length at 120 problems for 2, 3 and 5 seeds, averaged over the spreads.

${names.map((name) => `- **${name}**: ${methods[name].about}`).join('\n')}

${table(['interval', 'missed, mean', 'missed, worst setting', 'length, 2 seeds', '3 seeds', '5 seeds'], summary)}

Missed, in each setting:

${table(
  ['seeds', 'problems', 'spread', ...names],
  compared.map((row) => [
    `${row.seeds}`,
    `${row.problems}`,
    `${row.spread}`,
    ...names.map((name) => show(row.missed[name])),
  ]),
)}

Kept: **generalised**. The plug-in methods (bootstrap, Satterthwaite, mixed model) are short because they believe a
spread estimated from two seeds; when that estimate is small by luck, the interval is too. The price of two seeds is
real: length at two seeds against five is what the missing seeds would have bought. The reference's own widening holds
its level too, but counts problem and rollout noise twice, and is wider for it.

## The kept interval over the grid

${cells.length} settings x ${sims.grid} null experiments and ${sims.grid / 2} with a true difference of ${EFFECT}; Monte Carlo error of a share near 5
percent: ${(100 * Math.sqrt((0.05 * 0.95) / sims.grid)).toFixed(1)}. _False moved_: percent of null experiments that \`compare\` calls moved in either direction. _Covered_:
percent of 95% intervals that hold the true difference.

- Highest false \`moved\`: ${show(highFalse.falseMoved)} (${place(highFalse)}).
- Lowest coverage: ${least.toFixed(1)} (${place(lowCover)}); mean ${mean(covers).toFixed(1)}.
- Power against what \`predict\` said: mean absolute gap ${mean(gaps).toFixed(1)} points, largest ${Math.max(...gaps).toFixed(1)}.

${table(['seeds', 'false moved, mean (worst)', 'covered at 0, mean (worst)', `covered at ${EFFECT}, mean (worst)`], bySeeds)}

${table(
  [
    'difficulty',
    'rollouts',
    'spread',
    'seeds',
    'problems',
    'false moved',
    'covered at 0',
    `covered at ${EFFECT}`,
    'power',
    'predicted',
  ],
  cells.map((c) => [
    c.difficulty,
    `${c.rollouts}`,
    `${c.spread}`,
    `${c.seeds}`,
    `${c.problems}`,
    show(c.falseMoved),
    show(c.coveredAtNone),
    show(c.coveredAtEffect),
    show(c.power),
    c.predictedPower.toFixed(1),
  ]),
)}

## Where it bends

The interval takes the two arms' seeds to spread alike (pooling them is what makes two seeds usable at all), where the noise of
the problems hides that they may not (see [the verdict](verdict.md#several-arms)). With no spread in the baseline and 0.04 in the
recipe (120 hard problems, 4 rollouts), it hides most of it:

${table(
  ['seeds', 'false moved', 'covered at 0'],
  stressed.map((row) => [`${row.seeds}`, show(row.falseMoved), show(row.covered)]),
)}

## Looking more than once

Seeds added one an arm at a time, ${looks.looks.join(', ')} seeds, until the interval excludes 0 (120 hard problems, 4 rollouts,
spread 0.02, no true difference): ${show(looks.naive)} percent ever do at level 0.05 for each look, ${show(looks.bonferroni)} at 0.05 / ${looks.looks.length}.

## Families of contrasts

Several arms, each against the first, on 120 hard problems (300 or 1000 where said) with ${ROLLOUTS} rollouts, through \`compareFamily\`. _False
moved_: percent of experiments in which any contrast without a true difference is called moved, either way. _Missed_:
percent in which any of the family's intervals misses its true difference. Both may be 5 at most; ${sims.families} experiments a setting,
or half of them where the level is never near: the Monte Carlo error of a share of 5 percent is ${errorNearFive(sims.families)}, and of one of 2 percent in
half of them ${(100 * Math.sqrt((0.02 * 0.98) / (sims.families / 2))).toFixed(1)}.

- Seeds that spread alike, ${summaryOf(alike)}
- Unlike, three arms or more on 120 problems: ${summaryOf(unlike.filter((c) => c.problems === 120))}
- Unlike, three arms or more on 300 problems: ${summaryOf(unlike.filter((c) => c.problems === 300))}
- Unlike, three arms or more on 1000 problems: ${summaryOf(unlike.filter((c) => c.problems === 1000))}

Where spreads differ, the wide ones are 0.04 and the others 0, or 0.01 on 300 problems. The more problems, the less their noise
hides of the spread, and two seeds cannot tell a wide arm from a lucky narrow one; so where problems hide too little, the intervals
also hold what one arm alone may bring (see [the verdict](verdict.md#several-arms)). Two arms alone, which have no third to show
which of them is odd, miss ${show(twoAt(300).missed)} percent on 300 problems at worst, with ${show(twoAt(300).falseMoved)} called moved, and ${show(twoAt(1000).missed)} percent on 1000, with ${show(twoAt(1000).falseMoved)}.

${table(
  ['problems', 'seeds spread', 'wide', 'arms', 'seeds', 'experiments', 'false moved', 'missed'],
  families.map((c) => [
    `${c.problems}`,
    c.pattern,
    `${c.wide}`,
    `${c.arms}`,
    `${c.seeds}`,
    `${c.sims}`,
    show(c.falseMoved),
    show(c.missed),
  ]),
)}

### Which spread

What a contrast may take for the spread between seeds, on the same null experiments (${sims.rules} a setting; where spreads differ, 0.04
and 0). _Missed_ as above; _found_: percent in which a second arm that is better by ${2 * EFFECT} is, in the same family.

${table(
  ['seeds spread', 'arms', 'seeds', ...rules.flatMap((name) => [`${name}: missed`, 'found'])],
  ruled.map((c) => [
    c.pattern,
    `${c.arms}`,
    `${c.seeds}`,
    ...rules.flatMap((name) => [show(c.missed[name]), show(c.found[name])]),
  ]),
)}

**Kept**: pooled where both arms spread as the others do, never below their own and for four arms at most; an odd arm for itself,
with its own degrees of freedom. Always pooling finds the most where spreads are alike, and misses its level where they are not: an arm that hardly learns spreads less than one that does, so that
cannot be left to luck.

### One arm is better

The second arm is better by ${EFFECT}, the others are not; ${sims.familyPower} experiments a setting. _False moved_ is among the others alone.
\`predict\` is told the number of arms: its mean absolute gap is ${mean(powerGaps).toFixed(1)} points, the largest ${Math.max(...powerGaps).toFixed(1)}.

${table(
  ['arms', 'seeds', 'spread', 'false moved', 'missed', 'power', 'predicted'],
  familyPower.map((c) => [
    `${c.arms}`,
    `${c.seeds}`,
    `${c.wide}`,
    show(c.falseMoved),
    show(c.missed),
    show(c.power),
    c.predictedPower.toFixed(1),
  ]),
)}

### What pooling is worth

Half-width of one contrast's interval (median of ${sims.widths} experiments, spread 0.02): of the two arms alone; of the two arms alone
at the family's share of the level (Bonferroni); in the family, where the others' seeds count and the level is shared as
Dunnett's; and in an experiment with as many arms where this contrast is the only one of interest.

${table(
  ['arms', 'seeds', 'two arms alone', 'alone, Bonferroni', 'in the family', 'the only contrast'],
  widths.map((c) => [
    `${c.arms}`,
    `${c.seeds}`,
    ...[c.pair, c.bonferroni, c.family, c.one].map((width) => width.toFixed(3)),
  ]),
)}

### Looking more than once at a family

${familySequence.arms} arms, seeds added one an arm at a time, ${familySequence.looks.join(', ')} seeds, until any interval excludes 0 (spread 0.02, no true
difference, ${sims.familySequence} experiments): ${show(familySequence.naive)} percent ever do at level 0.05 for each look, ${show(familySequence.bonferroni)} at 0.05 / ${familySequence.looks.length}.

### Arms of other sizes

Two arms with other numbers of seeds than one another, spread 0.04 in both or only in the smaller one; ${sims.otherSizes} experiments each.
Here the intervals always hold what one arm alone may bring.

${table(
  ['seeds', 'wide', 'false moved', 'missed'],
  otherSizes.map((c) => [c.sizes.join(' and '), c.wide, show(c.falseMoved), show(c.missed)]),
)}

## Did training help

Trained arms against an untrained base (\`trainingHelped\`), the arms of an experiment as one family; ${sims.training} experiments a setting.
_Found_: percent in which the first arm's effect of ${EFFECT} is found.

${table(
  ['arms', 'seeds', 'spread', 'evaluations of the base', 'missed at 0', `missed at ${EFFECT}`, 'found'],
  training.map((c) => [
    `${c.arms}`,
    `${c.seeds}`,
    `${c.spread}`,
    `${c.evaluations}`,
    show(c.missedAtNone),
    show(c.missedAtEffect),
    show(c.found),
  ]),
)}
`
}
