/** `message-board power`: what an experiment, or more seeds of a finished run, could see, and what that would cost. */
import {
  measurePilot,
  type PowerAfter,
  type PowerBefore,
  pilotFrom,
  powerAfter,
  powerBefore,
} from '../experiment/power.ts'
import { alignedRows } from '../report/layout.ts'
import { signed, three } from '../report/rows.ts'
import { isFolder } from './asked.ts'
import { experimentOf } from './experiment-file.ts'
import { type ExperimentFlags, withFlags } from './flags.ts'
import { downloadProgress } from './progress.ts'
import { printJson, printText, say } from './terminal.ts'

export interface PowerFlags extends ExperimentFlags {
  effect?: number
  from?: string
  maxProblems?: number
  json?: boolean
}

/** The effect that is planned for unless told: five points of pass@1. */
const EFFECT = 0.05

/** `about` is an experiment file, the folder of a run, or absent for the built-in experiment. */
export async function powerCommand(about: string | undefined, flags: PowerFlags): Promise<void> {
  const show = (found: unknown, text: string) => (flags.json ? printJson(found) : printText(text))
  if (about !== undefined && (await isFolder(about))) {
    const after = await powerAfter(about, flags.effect)
    show(after, afterText(about, after))
    return
  }
  const experiment = withFlags(await experimentOf(about), flags)
  const pilot = flags.from
    ? await pilotFrom(flags.from, experiment)
    : await measurePilot(experiment, {
        onDownload: flags.json ? undefined : downloadProgress(process.stderr),
        onNotice: say,
        onPhase: flags.json ? undefined : (phase) => say(`timing ${phase}`),
      })
  const { holdout } = await experiment.task.load()
  const before = powerBefore(experiment, pilot, flags.effect ?? EFFECT, {
    holdout: holdout.length,
    maxProblems: flags.maxProblems,
  })
  show(before, beforeText(before))
}

const minutesText = (minutes: number) => minutes.toFixed(minutes < 10 ? 1 : 0)

function beforeText({ effect, plans, configured, speed, source, warnings }: PowerBefore): string {
  const { problems, seeds, rollouts, power, detectable, minutes } = configured
  const rows = plans.map((plan) => [
    `${plan.seeds}`,
    `${plan.problems}`,
    plan.power.toFixed(2),
    minutesText(plan.minutes ?? 0),
  ])
  return [
    ...(plans.length === 0
      ? [`None of the sizes tried finds an effect of ${three(effect)} with 80% power: allow more problems.`]
      : [
          `An effect of ${three(effect)} is found with 80% power by any of these, the cheapest first:`,
          '',
          ...alignedRows([['seeds an arm', 'held-out problems', 'power', 'minutes'], ...rows]),
        ]),
    '',
    `As configured (${seeds} seeds an arm, ${problems} problems, ${rollouts} replies each; ${minutesText(minutes)} minutes):`,
    `the chance to find ${three(effect)} is ${power.toFixed(2)}; ` +
      (detectable === null
        ? 'no effect is found with 80% power: train at least two seeds an arm.'
        : `the smallest effect found with 80% power is ${three(detectable)}.`),
    '',
    `Speed: ${speed.minutesPerTraining.toFixed(2)} minutes a training, ${speed.secondsPerRollout.toFixed(4)} seconds a reply.`,
    source,
    ...warnings.map((warning) => `Warning: ${warning}`),
  ].join('\n')
}

function afterText(folder: string, after: PowerAfter): string {
  const { arm, against, delta, ci95, verdict, seeds, problems, toResolve, more } = after
  const rows = more.map((each) => [
    `${each.seeds}`,
    each.detectable === null ? 'none' : three(each.detectable),
    minutesText(each.minutes),
  ])
  return [
    `${folder}, ${arm} - ${against}: ${signed(delta)} [${signed(ci95[0])}, ${signed(ci95[1])}], ${verdict}, with ${seeds} seed${seeds === 1 ? '' : 's'} an arm on ${problems} problems.`,
    toResolve.minutes
      ? `${toResolve.why} That takes ${minutesText(toResolve.minutes)} minutes.`
      : toResolve.why,
    '',
    'What more seeds could see, with 80% power:',
    '',
    ...alignedRows([['seeds an arm', 'smallest effect', 'more minutes'], ...rows]),
  ].join('\n')
}
