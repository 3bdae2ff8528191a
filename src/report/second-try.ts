/**
 * What reading a board did, told apart from what a second try does by itself: a reader that sees nothing but its own
 * posts answers again, and some wrong notes come right without anybody's help. Pure: reads results.json alone.
 */
import type { ReaderCounts } from '../board/counts.ts'
import type { Ref } from '../board/types.ts'
import type { Results } from '../record/results.ts'
import type { RunRecord } from '../record/schema.ts'
import { three } from './numbers.ts'

/** Whether the speakers of a round, as a record has it, see nothing but what their own seats wrote. */
export const seesItselfAlone = ({
  speakers,
  sights,
}: {
  speakers: readonly number[]
  sights: readonly (readonly Ref[] | null)[]
}): boolean => sights.every((sight, i) => sight?.every(([, seat]) => seat === speakers[i]) ?? true)

/** The same of an arm's round, the last unless told; false where the results do not say. */
export function readsItselfAlone({ config }: Pick<Results, 'config'>, arm: string, round = -1): boolean {
  const { arms } = config as Partial<RunRecord['identity']>
  const found = arms?.[arm]?.protocol.rounds.at(round)
  return found !== undefined && seesItselfAlone(found)
}

/**
 * What replies made of wrong notes and of right ones, of each arm that reads others and of the one that reads itself
 * alone; undefined where there are not both, or where replies and notes are not of the same seats.
 */
export function secondTry(results: Results): string | undefined {
  const { arms, baseline } = results
  const told = Object.entries(arms).flatMap(([name, arm]) => {
    const turned = arm && turns(arm.board)
    return turned ? [{ name, alone: readsItselfAlone(results, name), ...turned }] : []
  })
  const alone = told.filter((one) => one.alone)
  const control = alone.find(({ name }) => name === baseline) ?? alone[0]
  const readers = told.filter((one) => !one.alone)
  if (control === undefined || readers.length === 0) return undefined
  const each = readers.map(
    ({ name, righted, lost }) =>
      `${name} turns ${three(righted)} of wrong notes right and loses ${three(lost)} of right ones`,
  )
  return `${each.join('; ')}; a second try with the own note alone (${control.name}), ${three(control.righted)} and ${three(control.lost)}`
}

/** Shares of wrong notes and of right ones, where every reply has its seat's note before it. */
function turns({ rounds, noteAcc, rescued, misled }: ReaderCounts) {
  if (rounds.length !== 2 || noteAcc === null || rescued === null || misled === null) return undefined
  const isOfAll = Math.abs(noteAcc + rescued - misled - rounds[1].right) < 1e-9
  if (!isOfAll || noteAcc === 0 || noteAcc === 1) return undefined
  return { righted: rescued / (1 - noteAcc), lost: misled / noteAcc }
}
