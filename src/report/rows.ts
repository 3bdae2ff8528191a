/** The rows of the result table, shared by the printed and the Markdown table. Pure: reads results.json alone. */
import type { ReaderCounts } from '../board/readers.ts'
import type { BaseArm, Results, TrainedArm } from '../experiment/results.ts'

export const columns = [
  'arm',
  'pass@1',
  '95% CI',
  'pass@k',
  'note_acc',
  'vote_acc',
  'any_note',
  'switched',
  'rescued',
  'misled',
  'chars',
  'minutes',
] as const

/** One row for each base board, each arm and seed, and each arm pooled over its seeds. Cells match `columns`. */
export function tableRows(results: Results): string[][] {
  const { base, baseSharedBoard, baseline, recipe } = results.arms
  return [
    ...(base ? [baseRow(`base, ${times(base.runs.length)}`, base)] : []),
    ...(baseSharedBoard ? [baseRow("base, recipe's board", baseSharedBoard)] : []),
    ...(baseline ? armRows('baseline', baseline, results) : []),
    ...(recipe ? armRows('recipe', recipe, results) : []),
  ]
}

/** The header, with the number of replies in place of k. */
export function tableHeader(results: Results): string[] {
  const k = Object.values(results.arms).find((arm) => arm !== null)?.k
  return columns.map((column) => (column === 'pass@k' && k !== undefined ? `pass@${k}` : column))
}

const times = (runs: number) => (runs === 1 ? 'once' : `${runs} times`)

function baseRow(name: string, arm: BaseArm): string[] {
  return row(name, arm.passAt1, arm.ci95, arm.passAtK, arm.board, null)
}

function armRows(name: string, arm: TrainedArm, { timing }: Results): string[][] {
  const perSeed = arm.seeds.map((seed, s) => {
    const { trainMinutes, evaluationMinutes } = timing.jobs[`${name}-s${seed}`]
    return row(
      `${name}, seed ${seed}`,
      arm.perSeed[s],
      arm.ci95PerSeed[s],
      arm.passAtKPerSeed[s],
      arm.boardPerSeed[s],
      trainMinutes + evaluationMinutes,
    )
  })
  const pooled = row(`${name}, all seeds`, arm.passAt1, arm.ci95, arm.passAtK, arm.board, arm.minutes)
  return arm.seeds.length > 1 ? [...perSeed, pooled] : perSeed
}

function row(
  name: string,
  passAt1: number,
  [low, high]: readonly [number, number],
  passAtK: number,
  board: ReaderCounts,
  minutes: number | null,
): string[] {
  const { noteAcc, voteAcc, anyNote, switched, rescued, misled, replyChars } = board
  return [
    name,
    three(passAt1),
    `[${three(low)}, ${three(high)}]`,
    ...[passAtK, noteAcc, voteAcc, anyNote, switched, rescued, misled].map(three),
    replyChars.toFixed(0),
    minutes === null ? '' : minutes.toFixed(1),
  ]
}

/** Three decimals, as in the reference: the smallest step of 120 problems x 4 replies is 0.002. */
export const three = (value: number) => value.toFixed(3)

/** With its sign, so that a difference is never mistaken for a level. */
export const signed = (value: number) => `${value < 0 ? '-' : '+'}${Math.abs(value).toFixed(3)}`
