/** The definitions that this project shares with whileai, held to its values (test/golden/whileai_stats.py). */

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { tQuantile } from './distributions.ts'
import { passAt } from './estimate.ts'
import { hackScan, type ScanRow } from './hack-scan.ts'
import { evalVariance, noiseBand } from './noise.ts'

type Rows = Record<string, number[]>
interface Golden {
  passes: { rows: Rows; expected: { k: number; passAt1: number; passAtK: number; passHatK: number }[] }[]
  evalVariance: { runs: Rows[]; means: number[]; mean: number; runStd: number; band: number }
  bands: { runStd: number; nA: number; nB: number; df: number; band: number }[]
  hackScan: {
    rows: ScanRow[]
    floor: number
    top: string
    features: { name: string; aliases: string[]; rho: number; pooled: number; rows: number }[]
  }
}
const golden: Golden = JSON.parse(readFileSync(new URL('./fixtures/whileai.json', import.meta.url), 'utf8'))

describe('agreement with whileai', () => {
  it('pass@1, pass@k and pass^k', () => {
    for (const { rows, expected } of golden.passes) {
      for (const { k, ...values } of expected) {
        const got = passAt(Object.values(rows), { k, draws: 10 })
        expect(got.passAt1.value).toBeCloseTo(values.passAt1, 12)
        expect(got.passAtK.value).toBeCloseTo(values.passAtK, 12)
        expect(got.passHatK.value).toBeCloseTo(values.passHatK, 12)
      }
    }
  })

  it('evaluation variance, to the four decimals that it gives', () => {
    const { runs, means, mean, runStd, band } = golden.evalVariance
    const got = evalVariance(runs.map((rows) => Object.entries(rows).map(([id, scores]) => ({ id, scores }))))
    expect(got.runs).toHaveLength(means.length)
    for (const [i, value] of got.runs.entries()) {
      expect(Math.abs(value - means[i])).toBeLessThanOrEqual(0.5e-4)
    }
    expect(Math.abs(got.mean - mean)).toBeLessThanOrEqual(0.5e-4)
    expect(Math.abs(got.runStd - runStd)).toBeLessThanOrEqual(0.5e-4)
    expect(Math.abs(got.band - band)).toBeLessThanOrEqual(0.5e-4)
  })

  it('the noise band for any number of runs a side, to its table of t (three decimals)', () => {
    for (const { runStd, nA, nB, df, band } of golden.bands) {
      // Runs with exactly this standard deviation and as many degrees of freedom.
      const spread = runStd * Math.sqrt(df)
      const runs = [spread * Math.SQRT1_2, -spread * Math.SQRT1_2, ...Array(df - 1).fill(0)]
      const got = noiseBand(runs, nA, nB)
      expect(got.runStd).toBeCloseTo(runStd, 12)
      expect(Math.abs(got.band / band - 1)).toBeLessThan(0.0005 / tQuantile(0.975, df) + 1e-9)
    }
  })

  it('the hack scan: the same columns, correlations and ranking, and about the same floor', () => {
    const names: Record<string, string> = {
      reply_length: 'characters',
      'n:words': 'words',
      'n:digits': 'digits',
      'n:newlines': 'newlines',
      'n:punct': 'punctuation',
      'frac:upper': 'uppercase share',
    }
    const ours = (name: string) => names[name] ?? name.replace(/^contains:/, 'says ')
    // 2,000 shuffles on both sides, so that the floors can be compared.
    const got = hackScan(golden.hackScan.rows, { draws: 2000 })
    expect(got.features.map(({ name }) => name)).toEqual(
      golden.hackScan.features.map(({ name }) => ours(name)),
    )
    golden.hackScan.features.forEach((feature, i) => {
      const mine = got.features[i]
      expect([mine.name, ...mine.aliases].sort()).toEqual([feature.name, ...feature.aliases].map(ours).sort())
      expect(Math.abs(mine.rho - feature.rho), feature.name).toBeLessThanOrEqual(0.51e-4)
      expect(Math.abs(mine.pooled - feature.pooled), feature.name).toBeLessThanOrEqual(0.51e-4)
      expect(mine.rows).toBe(feature.rows)
    })
    expect(got.top!.name).toBe(ours(golden.hackScan.top))
    expect(Math.abs(got.floor - golden.hackScan.floor)).toBeLessThan(0.015)
  })
})
