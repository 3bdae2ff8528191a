/** The positive control in small (scripts/control.ts has it in large): where the truth is known, the verdict finds it. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { own, shared } from '../src/board/sights.ts'
import { defineExperiment } from '../src/experiment/config.ts'
import { runExperiment } from '../src/experiment/run.ts'
import { clues, cluesReach } from '../src/tasks/clues.ts'

it('finds that sharing helps where nobody can do it alone, and no more than it can', async () => {
  const dials = { parts: 2, overlap: false, most: 20 }
  const most = cluesReach(dials, [0, 1]) - cluesReach(dials, [0])
  const experiment = defineExperiment({
    task: clues({ train: 96, holdout: 96, ...dials }),
    arms: { baseline: { reads: own }, recipe: { reads: shared } },
    // Hardly trained: seeds that learn at different speeds are for many steps to bring together.
    train: { steps: 2 },
    seeds: [1, 2, 3],
    engine: { threads: 1 },
  })
  const out = await mkdtemp(join(tmpdir(), 'control-'))
  try {
    const { contrasts } = await runExperiment(experiment, { out })
    expect(contrasts[0].verdict, contrasts[0].why).toBe('moved')
    expect(contrasts[0].delta).toBeLessThan(most + 0.05)
  } finally {
    await rm(out, { recursive: true })
  }
}, 240_000)
