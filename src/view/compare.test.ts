import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ComparedRun, compareAcross } from './compare.ts'
import { openRun } from './run-index.ts'
import {
  aggregated,
  type SyntheticRun,
  threeArms,
  twoArms,
  writeSyntheticRun,
} from './testing/synthetic-run.ts'

let folder: string
let two: ComparedRun
let three: ComparedRun
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'compare-'))
  two = await made('two', { arms: twoArms })
  three = await made('three', { arms: threeArms, seeds: [19, 20, 21] })
})
afterAll(() => rm(folder, { recursive: true }))

async function made(name: string, choices: SyntheticRun): Promise<ComparedRun> {
  const path = join(folder, name)
  await writeSyntheticRun(path, { holdout: 40, train: 12, steps: 2, problemsPerStep: 3, ...choices })
  const index = await openRun(path)
  return { run: index.view(), columns: index.columns() }
}

/** A run otherwise alike. */
const changed = ({ run, columns }: ComparedRun, shared: object): ComparedRun => ({
  run: { ...run, identity: { ...run.identity, shared: { ...run.identity.shared, ...shared } } },
  columns,
})

const baseline = { run: 0, arm: 'baseline' }

describe('arms of several runs', () => {
  it('differ as their own run says, where they are of one run alone', () => {
    const [one] = compareAcross([two], baseline)
    const [own] = two.run.results!.contrasts
    expect(one.arm).toBe('recipe')
    expect(one.found).toMatchObject({ delta: own.delta, ci95: own.ci95, p: own.p, verdict: own.verdict })
  })

  it('are each held against one, with wider intervals where there are more', () => {
    const found = compareAcross([two, three], baseline)
    expect(found.map(({ run, arm }) => [run, arm])).toEqual([
      [0, 'recipe'],
      [1, 'baseline'],
      [1, 'recipe'],
      [1, 'debate'],
    ])
    for (const { whyNot, found: one, run, arm } of found) {
      expect(whyNot).toBe(null)
      const [a, b] = [[two, three][run].run.results!.arms[arm]!, two.run.results!.arms.baseline!]
      expect(one!.delta).toBeCloseTo(a.passAt1 - b.passAt1, 12)
      expect(one!.ci95[0]).toBeLessThan(one!.delta)
      expect(one!.problems).toBe(40)
      // Below the level exactly where the interval leaves 0 out.
      expect(one!.p < 0.05).toBe(one!.ci95[0] > 0 || one!.ci95[1] < 0)
    }
    const width = ([low, high]: readonly [number, number]) => high - low
    const [alone] = compareAcross([two], baseline)
    expect(width(found[0].found!.ci95)).toBeGreaterThan(width(alone.found!.ci95))
  })

  it('are not compared where something beside the arm decides the score, and it is said what', async () => {
    const why = (other: ComparedRun) =>
      compareAcross([two, other], baseline).flatMap(({ run, whyNot }) => (run === 1 ? [whyNot] : []))[0]
    expect(why(three)).toBe(null)
    expect(why(changed(three, { task: { name: 'svamp' } }))).toBe(
      'The tasks differ: three has svamp, two has word-problems.',
    )
    expect(why(changed(three, { grader: { name: 'math', version: '2' } }))).toContain('math 2 and by math 1')
    const { evaluation } = three.run.identity.shared
    const greedy = { ...evaluation, sampling: { temperature: 0.1, topP: 0.95 } }
    expect(why(changed(three, { evaluation: greedy }))).toBe(
      'Evaluated with different draws: temperature is 0.1 in three and 0.9 in two.',
    )
    expect(why({ ...three, run: { ...three.run, results: null } })).toBe('three is not finished.')
    const { problems } = three.columns
    const others = (column: 'id' | 'gold', text: string) => ({
      ...three,
      columns: { ...three.columns, problems: { ...problems, [column]: problems.id.map((id) => text + id) } },
    })
    expect(why(others('id', 'other '))).toBe('three and two share no held-out problem.')
    expect(why(others('gold', ''))).toContain('40 of 40 held-out problems have the same id and are others')
    const failed = await made('failed', { failed: 'recipe-s17', seeds: [17] })
    expect(compareAcross([two, failed], baseline).at(-1)).toMatchObject({
      arm: 'recipe',
      found: null,
      whyNot: 'No training of recipe in failed is finished.',
    })
  })

  it('may play different protocols, and share some of their problems', async () => {
    const votes = await made('votes', { arms: aggregated, holdout: 30 })
    const found = compareAcross([votes, two], { run: 0, arm: 'voting' })
    expect(found.map(({ found: one }) => one?.problems)).toEqual([30, 30, 30])
    expect(found[0].found?.warnings.join()).not.toContain('left out')
    expect(found[1].found?.warnings.join()).toContain('10 are not in every one and were left out')
  })
})
