/** All of a run, as the report shows it: the overview, and any problem with its boards. */
import { useMemo } from 'preact/hooks'
import { Overview } from '../web/overview.tsx'
import { ProblemView, TrainingView } from '../web/problem.tsx'
import { route } from '../web/route.ts'
import { tableState } from '../web/table-state.ts'
import { source } from './run-state.ts'

export function RunReport() {
  const its = source.value
  const table = useMemo(() => tableState(its), [its])
  const run = its.run.value
  const now = route.value
  if (run === null) return null
  const shared = { source: its, table, run, address: null }
  return (
    <main>
      {now.view === 'problem' ? (
        <ProblemView {...shared} id={now.id} seed={now.seed} arms={now.arms} />
      ) : now.view === 'training' ? (
        <TrainingView {...shared} job={now.job} step={now.step} id={now.id} board={now.board} />
      ) : (
        <Overview {...shared} section={now.view === 'run' ? now.section : null} />
      )}
    </main>
  )
}
