import { describe, expect, it } from 'vitest'
import type { ReaderCounts } from '../board/readers.ts'
import { type Results, resultsSchema, type TrainedArm } from '../experiment/results.ts'
import { post } from './post.ts'
import { tableMarkdown, tableText } from './table.ts'

const board = (
  [noteAcc, voteAcc, anyNote, switched, rescued, misled]: number[],
  replyChars: number,
): ReaderCounts => ({
  noteAcc,
  voteAcc,
  anyNote,
  switched,
  rescued,
  misled,
  replyChars,
  notesCut: 0.5,
  repliesCut: 0.1,
  notesBoxed: 0.4,
  noteChars: 300,
  noteTokens: 100,
  replyTokens: 200,
})

function arm(reads: string, perSeed: number[], boards: ReaderCounts[], chars: number): TrainedArm {
  const pooled = perSeed.reduce((sum, value) => sum + value, 0) / perSeed.length
  return {
    passAt1: pooled,
    ci95: [pooled - 0.07, pooled + 0.07],
    passAtK: 0.8,
    k: 4,
    chars,
    board: boards[0],
    reads,
    seeds: [17, 18],
    perSeed,
    ci95PerSeed: perSeed.map((value) => [value - 0.07, value + 0.07]),
    passAtKPerSeed: [0.825, 0.775],
    boardPerSeed: boards,
    pooled,
    steps: 40,
    minutes: 49.8,
  }
}

const trace = (seed: number) => ({
  seed,
  reward: [0.5, 0.8],
  informative: [1, 0.5],
  noteAcc: [0.3, 0.4],
  replyChars: [700, 690],
  gradNorm: [1, 0.5],
  rewardFirst10: 0.54,
  rewardLast10: 0.8,
})

/** The reference experiment's figures. */
const reference: Results = resultsSchema.parse({
  schemaVersion: 1,
  model: { name: '/home/someone/models/Qwen2.5-1.5B-Instruct', sha256: 'f00' },
  task: { name: 'gsm8k', train: 512, holdout: 120 },
  config: {},
  seeds: [17, 18],
  arms: {
    base: {
      passAt1: 0.5229,
      ci95: [0.4604, 0.5917],
      passAtK: 0.775,
      k: 4,
      chars: 719,
      board: board([0.3, 0.383, 0.558, 0.608, 0.248, 0.025], 719),
      runs: [0.5229, 0.54, 0.55],
    },
    baseSharedBoard: null,
    baseline: arm(
      'own',
      [0.65, 0.6833],
      [
        board([0.565, 0.633, 0.792, 0.477, 0.127, 0.042], 684),
        board([0.458, 0.542, 0.65, 0.51, 0.244, 0.019], 690),
      ],
      684,
    ),
    recipe: arm(
      'shared',
      [0.6792, 0.6729],
      [
        board([0.41, 0.483, 0.583, 0.487, 0.287, 0.019], 899),
        board([0.463, 0.542, 0.675, 0.533, 0.25, 0.04], 880),
      ],
      899,
    ),
  },
  delta: {
    recipeVsBaseline: 0.0094,
    ci95: [-0.0604, 0.0791],
    verdict: 'unresolved',
    why: 'More seeds would resolve it.',
    p: 0.79,
    smallestEffect: 0.1,
    flatWithin: 0.03,
    warnings: ['The token limit cut more replies of one arm.'],
    toResolve: { seeds: 9, why: '9 seeds an arm resolve it.' },
  },
  checks: {
    noise: { runs: [0.5229, 0.54, 0.55], runStd: 0.0125, t: 4.3027, band: 0.0538 },
    decontamination: { dropped: 0 },
    length: [{ arm: 'baseline', before: 719, after: 684 }],
    cut: [{ arm: 'base', notes: 0.5, replies: 0.1 }],
    hackScan: [{ job: 'recipe-s17', floor: 0.4, top: null, why: 'Nothing stands out.' }],
    overOptimisation: { proxy: null, overOptimised: false, why: 'The reward is the target.' },
  },
  trainTrace: { baseline: [trace(17), trace(18)], recipe: [trace(17), trace(18)] },
  failed: [],
  versions: { node: 'v20' },
  timing: {
    finishedAt: '2026-01-01T00:00:00.000Z',
    minutes: 100,
    jobs: Object.fromEntries(
      ['baseline-s17', 'baseline-s18', 'recipe-s17', 'recipe-s18'].map((job) => [
        job,
        { trainMinutes: 22, evaluationMinutes: 2.9 },
      ]),
    ),
  },
})

describe('the table', () => {
  it('has a row for each run, seed and arm, aligned, with the checks under it', () => {
    const text = tableText(reference)
    const lines = text.split('\n')
    expect(lines[0]).toContain('120 held-out problems, seeds 17, 18')
    const header = lines.find((line) => line.startsWith('arm'))!
    const rows = lines.filter((line) => /^(base|baseline|recipe), /.test(line) && line.includes('[0.'))
    expect(header.split(/ {2,}/)).toEqual([
      'arm',
      'pass@1',
      '95% CI',
      'pass@4',
      'note_acc',
      'vote_acc',
      'any_note',
      'switched',
      'rescued',
      'misled',
      'chars',
      'minutes',
    ])
    expect(rows.map((row) => row.split(/ {2,}/).slice(0, 3))).toEqual([
      ['base, 3 times', '0.523', '[0.460, 0.592]'],
      ['baseline, seed 17', '0.650', '[0.580, 0.720]'],
      ['baseline, seed 18', '0.683', '[0.613, 0.753]'],
      ['baseline, all seeds', '0.667', '[0.597, 0.737]'],
      ['recipe, seed 17', '0.679', '[0.609, 0.749]'],
      ['recipe, seed 18', '0.673', '[0.603, 0.743]'],
      ['recipe, all seeds', '0.676', '[0.606, 0.746]'],
    ])
    expect(new Set(rows.slice(1).map((row) => row.length)).size).toBe(1)
    expect(text).toMatch(/recipe - baseline +\+0\.009 \[-0\.060, \+0\.079\]: unresolved\. More seeds/)
    expect(text).toMatch(/could have seen +an effect of 0\.100/)
    expect(text).toMatch(/to resolve it +9 seeds an arm resolve it\./)
    expect(text).toMatch(/warning +The token limit cut/)
    expect(text).toMatch(/noise +base runs 0\.523, 0\.540, 0\.550; run_std 0\.0125, band 0\.054/)
  })

  it('is Markdown with as many cells in every row', () => {
    const rows = tableMarkdown(reference)
      .split('\n')
      .filter((line) => line.startsWith('|'))
    expect(rows).toHaveLength(9)
    expect(tableMarkdown(reference)).toContain('- **could have seen**: an effect of 0.100')
    expect(new Set(rows.map((row) => row.split('|').length))).toEqual(new Set([14]))
  })

  it('is text whatever the names in it hold', () => {
    const evil = 'a|b\u001b[2J\n\u202e'
    const { model, task, failed } = reference
    const named = {
      ...reference,
      model: { ...model, name: evil },
      task: { ...task, name: evil },
      failed: [...failed, { job: evil, why: `${evil}\r` }],
    }
    for (const text of [tableText(named), tableMarkdown(named), post(named)]) {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
      expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/)
    }
    expect(tableMarkdown(named).split('\n')).toHaveLength(tableMarkdown(reference).split('\n').length + 1)
  })

  it('names a job that failed and an arm that was not trained', () => {
    const partial: Results = {
      ...reference,
      arms: { ...reference.arms, recipe: null },
      delta: null,
      failed: [{ job: 'recipe-s17', why: 'step 3 failed: the loss became NaN.' }],
    }
    expect(tableText(partial)).toMatch(/recipe-s17 failed +step 3 failed/)
    expect(tableText(partial)).toMatch(/not compared: train both arms/)
  })
})

describe('the post', () => {
  it('states both arms, the difference, its interval and the verdict, in under 280 characters', () => {
    const text = post(reference)
    expect(text.length).toBeLessThan(280)
    for (const part of ['Unresolved', '0.676', '0.667', '+0.009', '[-0.060, +0.079]', '120 held out']) {
      expect(text).toContain(part)
    }
    // A path of this machine is nobody's business.
    expect(text).not.toContain('/home')
  })

  it('fits with the longest names, and without a comparison', () => {
    const long = { ...reference, model: { name: 'x'.repeat(300), sha256: '' } }
    const arms = {
      ...reference.arms,
      baseline: { ...reference.arms.baseline!, reads: 'r'.repeat(99) },
      recipe: { ...reference.arms.recipe!, reads: 'r'.repeat(99) },
    }
    expect(post({ ...long, arms, task: { ...long.task, name: 'y'.repeat(99) } }).length).toBeLessThan(280)
    expect(post({ ...long, delta: null }).length).toBeLessThan(280)
  })

  it.each([
    ['flat', /Flat/],
    ['moved', /Yes/],
    ['moved the wrong way', /worse/],
  ] as const)('says %s plainly', (verdict, words) => {
    expect(post({ ...reference, delta: { ...reference.delta!, verdict } })).toMatch(words)
  })
})
