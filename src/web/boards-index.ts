/** The columns of boards with what it takes to find a post in them. Pure. */
import { bit, flagAt, flagStarts, type Layout, layoutOf } from '../view/flags.ts'
import type { BoardColumns, RunView } from '../view/types.ts'

/** What of a run decides how its boards are read: not its progress, which changes at every event. */
export type Shape = Pick<RunView, 'jobs' | 'sides' | 'contrasts'>

export interface BoardsIndex {
  columns: BoardColumns
  jobs: Shape['jobs']
  sides: Shape['sides']
  /** By side. */
  layouts: Layout[]
  /** Where each board's flags begin. */
  starts: Uint32Array
}

export function boardsIndex(columns: BoardColumns, { jobs, sides }: Shape): BoardsIndex {
  const layouts = sides.map(layoutOf)
  const starts = flagStarts(
    columns.job,
    jobs.map(({ side }) => layouts[side].width),
  )
  return { columns, jobs, sides, layouts, starts }
}

export const layoutOfBoard = ({ columns, jobs, layouts }: BoardsIndex, board: number): Layout =>
  layouts[jobs[columns.job[board]].side]

/** Whether each of a board's scores is right. */
export function scoresOf(index: BoardsIndex, board: number): boolean[] {
  return layoutOfBoard(index, board).scores.map((score) => isRight(index, board, score))
}

/** Right posts of each of a board's rounds. */
export function rightByRound(index: BoardsIndex, board: number): { right: number; of: number }[] {
  return layoutOfBoard(index, board).rounds.map(({ start, posts }) => {
    let right = 0
    for (let post = 0; post < posts; post++) if (isRight(index, board, start + post)) right++
    return { right, of: posts }
  })
}

const isRight = ({ columns, starts }: BoardsIndex, board: number, post: number): boolean =>
  (flagAt(columns.flags, starts[board] + post) & bit.right) !== 0
