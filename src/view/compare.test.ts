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

  it('are each held against one, whichever run they are of', () => {
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
  })

  it('are not compared where something beside the arm decides the score, and it is said what', async () => {
    const why = (other: ComparedRun) =>
      compareAcross([two, other], baseline).flatMap(({ run, whyNot }) => (run === 1 ? [whyNot] : []))[0]
    expect(why(three)).toBe(null)
    expect(why(changed(three, { task: { name: 'svamp' } }))).toBe(
      'The tasks differ: svamp in three, word-problems in two.',
    )
    expect(why(changed(three, { grader: { name: 'math', version: '2' } }))).toBe(
      'The verifiers differ: math 2 in three, math 1 in two.',
    )
    const { evaluation } = three.run.identity.shared
    const greedy = { ...evaluation, sampling: { temperature: 0.1, topP: 0.95 } }
    expect(why(changed(three, { evaluation: greedy }))).toBe(
      'The evaluations drew differently: temperature 0.1, top-p 0.95 in three, temperature 0.9, top-p 0.95 in two.',
    )
    expect(why(changed(three, { evaluation: { ...evaluation, readTokens: 99 } }))).toContain('99 tokens')
    expect(why(changed(three, { template: { enable_thinking: true } }))).toContain('{"enable_thinking":true}')
    expect(why({ ...three, run: { ...three.run, results: null } })).toBe('three is not finished.')
    const { problems } = three.columns
    const others = (column: 'id' | 'gold', text: string) => ({
      ...three,
      columns: { ...three.columns, problems: { ...problems, [column]: problems.id.map((id) => text + id) } },
    })
    for (const other of [others('id', 'other '), others('gold', '')]) {
      expect(why(other)).toBe('The held-out problems are others: 40 in three, 40 in two, 0 of them the same.')
    }
    expect(why(await made('fewer', { holdout: 30, seeds: [19] }))).toBe(
      'The held-out problems are others: 30 in fewer, 40 in two, 30 of them the same.',
    )
    // A folder that was copied, and given other seeds since.
    expect(why(await made('copy', { seeds: [18, 19] }))).toBe(
      'They hold the same trainings (baseline-s18): nothing tells them apart.',
    )
    const failed = await made('failed', { failed: 'recipe-s17', seeds: [17] })
    expect(compareAcross([two, failed], baseline).at(-1)).toMatchObject({
      arm: 'recipe',
      found: null,
      whyNot: 'No training of recipe in failed is finished.',
    })
  })

  it('may play different protocols', async () => {
    const votes = await made('votes', { arms: aggregated })
    const found = compareAcross([votes, two], { run: 0, arm: 'voting' })
    expect(found.map(({ found: one }) => one?.problems)).toEqual([40, 40, 40])
    const { voting, aggregator } = votes.run.results!.arms
    expect(found[0].found?.delta).toBeCloseTo(aggregator!.passAt1 - voting!.passAt1, 12)
  })
})
