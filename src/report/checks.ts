/** The sentences under the result table: the verdict, and each check that it rests on. Pure. */
import type { Results } from '../experiment/results.ts'
import { signed, three } from './rows.ts'

/** `[what, said]` pairs, the verdict first. */
export function checkLines(results: Results): [what: string, said: string][] {
  const { delta, sequential, checks, trainTrace, failed } = results
  const { noise, decontamination, length, cut, overOptimisation } = checks
  return [
    ...(delta
      ? ([
          [
            'recipe - baseline',
            `${signed(delta.recipeVsBaseline)} [${signed(delta.ci95[0])}, ${signed(delta.ci95[1])}]: ${delta.verdict}. ${delta.why}`,
          ],
          ...(delta.smallestEffect === null
            ? []
            : [['could have seen', `an effect of ${three(delta.smallestEffect)}, four times in five`]]),
          ...(delta.toResolve ? [['to resolve it', delta.toResolve.why]] : []),
          ...delta.warnings.map((warning) => ['warning', warning]),
        ] as [string, string][])
      : ([['recipe - baseline', 'not compared: train both arms for a verdict.']] as [string, string][])),
    ...(sequential
      ? ([
          [
            'looks',
            `${sequential.taken.length} of at most ${sequential.looks}, one more seed an arm at each, ` +
              `each at level ${three(sequential.alpha)}`,
          ],
        ] as [string, string][])
      : []),
    ...results.regrades.map(({ from, to, evaluation, training }): [string, string] => [
      'graded again',
      `${from} to ${to}: ${evaluation.changed} of ${evaluation.of} grades of the evaluations changed; ` +
        `${training.changed} of ${training.of} of training would have`,
    ]),
    ...failed.map(({ job, why }): [string, string] => [`${job} failed`, why]),
    [
      'noise',
      noise
        ? `base runs ${noise.runs.map(three).join(', ')}; run_std ${noise.runStd.toFixed(4)}, band ${three(noise.band)}`
        : 'unknown: it takes two evaluations of the base',
    ],
    ...(['baseline', 'recipe'] as const).flatMap((arm) =>
      trainTrace[arm].map(({ seed, rewardFirst10, rewardLast10 }): [string, string] => [
        `${arm}, seed ${seed}`,
        `training reward ${three(rewardFirst10)} in the first ten steps, ${three(rewardLast10)} in the last ten`,
      ]),
    ),
    [
      'reply length',
      length.length === 0
        ? 'no trained arm'
        : length
            .map(({ arm, before, after }) => `${arm} ${before.toFixed(0)} to ${after.toFixed(0)} chars`)
            .join('; '),
    ],
    [
      'cut off',
      cut
        .map(({ arm, notes, replies }) => `${arm} ${three(notes)} of notes, ${three(replies)} of replies`)
        .join('; '),
    ],
    [
      'decontamination',
      `${decontamination.dropped} training problems dropped for overlap with the held-out set`,
    ],
    ...checks.hackScan.map(({ job, why }): [string, string] => [`hack scan, ${job}`, why]),
    ['over-optimised', `no. ${overOptimisation.why}`],
  ]
}
