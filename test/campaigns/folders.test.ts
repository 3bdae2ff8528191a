import { describe, expect, it } from 'vitest'
import { damagedFolders } from './folders.ts'
import { fullDisks } from './full-disks.ts'
import { twoWriters } from './two-writers.ts'

describe('a campaign, cut short,', () => {
  it('of damaged folders finds nothing', async () => {
    const { outcomes, failures } = await damagedFolders({ seed: 2, rounds: 60 })
    expect(failures).toEqual([])
    expect(Object.keys(outcomes)).toEqual(
      expect.arrayContaining(['finished: all ended', 'stopped: some ended', 'staged: refused']),
    )
  })

  it.runIf(process.platform === 'linux')('of writers that are killed finds nothing', async () => {
    const { outcomes, failures } = await twoWriters({ seed: 2, rounds: 1, kills: 2 })
    expect(failures).toEqual([])
    expect(Object.values(outcomes).reduce((sum, kills) => sum + kills, 0)).toBeGreaterThan(0)
  })

  it.runIf(process.platform === 'linux')('of disks that become full finds nothing', async () => {
    const { outcomes, failures } = await fullDisks({ seed: 2, rounds: 4 })
    expect(failures).toEqual([])
    expect(outcomes['became full']).toBeGreaterThan(0)
  })
})
