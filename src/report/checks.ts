/** The sentences under the result table: each comparison, and each check that it rests on. Pure. */
import type { ContrastResult, Results } from '../record/results.ts'
import { baseTitles } from '../view/sides.ts'
import type { Tone } from './layout.ts'
import { difference, three } from './numbers.ts'
import { secondTry } from './second-try.ts'

/** `source` says where in the run folder a sentence comes from, so that it can be checked; `tone`, how it is coloured. */
export type CheckLine = [what: string, said: string, source: string, tone?: Tone]

/** Trainings whose scans are listed one by one; of more, those that found nothing share a line. */
const SCANS = 4

/** The comparisons first. */
export function checkLines(results: Results): CheckLine[] {
  const { training, contrasts, sequential, checks, trainTrace, failed, regrades } = results
  const { noise, decontamination, length, cut, overOptimisation } = checks
  const titles = new Map(baseTitles(results.bases).map((title, i) => [results.bases[i].name, title]))
  const titleOf = (side: string) => titles.get(side) ?? side
  const tried = secondTry(results)
  return [
    ...training.map(
      (one): CheckLine => [
        `training, ${one.arm}`,
        `${difference(one)} against ${titleOf(one.base)}: ${one.verdict}. ${one.why}`,
        "training, from rollouts.jsonl of the arm's jobs and its base's",
        one.verdict,
      ],
    ),
    ...(contrasts.length === 0
      ? [['comparison', 'none: it takes finished trainings of two arms.', 'contrasts'] satisfies CheckLine]
      : contrasts.flatMap(contrastLines)),
    ...(sequential
      ? [
          [
            'looks',
            `${sequential.taken.length} of at most ${sequential.looks}, one more seed an arm at each, ` +
              `each at level ${three(sequential.alpha)}`,
            'sequential',
          ] satisfies CheckLine,
        ]
      : []),
    ...regrades.map(
      ({ from, to, evaluation, training: paid }): CheckLine => [
        'graded again',
        `${from} to ${to}: ${evaluation.changed} of ${evaluation.of} grades of the evaluations changed; ` +
          `${paid.changed} of ${paid.of} of training would have`,
        'regrades',
      ],
    ),
    ...failed.map(({ job, why }): CheckLine => [`${job} failed`, why, 'failed', 'moved the wrong way']),
    ...(tried === undefined
      ? []
      : [
          [
            'second try',
            tried,
            'arms.board, rescued / (1 - noteAcc) and misled / noteAcc',
          ] satisfies CheckLine,
        ]),
    [
      'noise',
      noise
        ? `base runs ${noise.runs.map(three).join(', ')}; run_std ${noise.runStd.toFixed(4)}, band ${three(noise.band)}`
        : 'unknown: it takes two evaluations of the base',
      "checks.noise, from rollouts.jsonl of the baseline's base",
    ],
    ...Object.entries(trainTrace).flatMap(([arm, seeds]): CheckLine[] =>
      seeds.length === 0
        ? []
        : [
            [
              `reward, ${arm}`,
              `in training, from the first ten steps to the last ten: ${seeds
                .map(
                  ({ seed, rewardFirst10, rewardLast10 }) =>
                    `${three(rewardFirst10)} to ${three(rewardLast10)} (s${seed})`,
                )
                .join(', ')}`,
              `trainTrace.${arm}, from metrics.jsonl`,
            ],
          ],
    ),
    [
      'reply length',
      length.length === 0
        ? 'no trained arm'
        : length
            .map(({ arm, before, after }) => `${arm} ${before.toFixed(0)} to ${after.toFixed(0)} chars`)
            .join('; '),
      'checks.length, against the base under the same protocol',
    ],
    [
      'cut off',
      cut
        .map(
          ({ of, notes, replies }) =>
            `${titleOf(of)} ${notes === null ? '' : `${three(notes)} of notes, `}${three(replies)} of replies`,
        )
        .join('; '),
      'checks.cut',
    ],
    [
      'decontamination',
      `${decontamination.dropped} training problems dropped for overlap with the held-out set`,
      'checks.decontamination, 8-gram overlap',
    ],
    ...scanLines(checks.hackScan),
    [
      'over-optimised',
      `${overOptimisation.overOptimised === null ? 'unknown' : 'no'}. ${overOptimisation.why}`,
      'checks.overOptimisation',
    ],
  ]
}

/** A pair's verdict, and then what belongs to it. */
export function contrastLines(one: ContrastResult): CheckLine[] {
  const { smallestEffect, toResolve, warnings } = one
  return [
    [
      `${one.arm} - ${one.against}`,
      `${difference(one)}: ${one.verdict}. ${one.why}`,
      `contrasts, from rollouts.jsonl of ${one.arm} and ${one.against}`,
      one.verdict,
    ],
    ...(smallestEffect === null
      ? []
      : [
          [
            'could have seen',
            `an effect of ${three(smallestEffect)}, four times in five`,
            'contrasts.smallestEffect',
          ] satisfies CheckLine,
        ]),
    ...(toResolve
      ? [
          [
            'to resolve it',
            toResolve.why,
            'contrasts.toResolve, planned from the spread between seeds and problems',
          ] satisfies CheckLine,
        ]
      : []),
    ...warnings.map((warning): CheckLine => ['warning', warning, 'contrasts.warnings', 'warning']),
  ]
}

function scanLines(scans: Results['checks']['hackScan']): CheckLine[] {
  const source = "checks.hackScan, from each job's last training batch"
  const each = scans.length > SCANS ? scans.filter(({ top }) => top !== null) : scans
  const rest = scans.length - each.length
  return [
    ...each.map(({ job, why }): CheckLine => [`hack scan, ${job}`, why, source]),
    ...(rest === 0
      ? []
      : [
          [
            'hack scan',
            `${rest} of ${scans.length} trainings: no text feature separates reward within a problem beyond chance`,
            source,
          ] satisfies CheckLine,
        ]),
  ]
}
