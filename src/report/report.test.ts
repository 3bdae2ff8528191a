import { describe, expect, it } from 'vitest'
import type { ReaderCounts, RoundCounts } from '../board/counts.ts'
import {
  type ArmResult,
  type ContrastResult,
  type Results,
  resultsSchema,
  type Trace,
  type TrainingResult,
} from '../record/results.ts'
import { checkLines } from './checks.ts'
import { explain, glossary } from './glossary.ts'
import { textOf } from './layout.ts'
import { post } from './post.ts'
import { columns, roundColumns, roundRows, tableRows } from './rows.ts'
import { readsItselfAlone, secondTry } from './second-try.ts'
import { changeSentence, said, trainingSentence } from './sentences.ts'
import { tableLines, tableMarkdown, tableText } from './table.ts'

type Readings = [
  noteAcc: number,
  voteAcc: number,
  anyNote: number,
  switched: number,
  rescued: number,
  misled: number,
]

function board(
  [noteAcc, voteAcc, anyNote, switched, rescued, misled]: Readings,
  chars: number,
): ReaderCounts {
  const shared = { cut: 0.1, boxed: 0.4, chars, tokens: 200 }
  const first: RoundCounts = {
    right: noteAcc,
    voteRight: voteAcc,
    anyRight: anyNote,
    switched: null,
    rescued: null,
    misled: null,
    ...shared,
  }
  const last: RoundCounts = {
    ...first,
    right: noteAcc + rescued - misled,
    switched,
    rescued,
    misled,
  }
  return {
    noteAcc,
    voteAcc,
    anyNote,
    switched,
    rescued,
    misled,
    replyChars: chars,
    notesCut: 0.5,
    repliesCut: 0.1,
    notesBoxed: 0.4,
    noteChars: 300,
    noteTokens: 100,
    replyTokens: 200,
    rounds: [first, last],
  }
}

function arm(protocol: string, perSeed: number[], boards: ReaderCounts[], chars: number): ArmResult {
  const mean = perSeed.reduce((sum, value) => sum + value, 0) / perSeed.length
  return {
    passAt1: mean,
    ci95: [mean - 0.07, mean + 0.07],
    passAtK: 0.8,
    k: 4,
    chars,
    board: boards[0],
    protocol,
    credit: 'ownAnswer',
    seeds: [17, 18],
    perSeed,
    ci95PerSeed: perSeed.map((value) => [value - 0.07, value + 0.07]),
    passAtKPerSeed: [0.825, 0.775],
    boardPerSeed: boards,
    stepsPerSeed: [40, 40],
    steps: 40,
    tokens: { sampled: 1000, scored: 0, trained: 500 },
    minutes: 49.8,
  }
}

const trace = (seed: number, rounds = ['note', 'reply']): Trace => ({
  seed,
  reward: [0.5, 0.8],
  informative: [1, 0.5],
  noteAcc: [0.3, 0.4],
  replyChars: [700, 690],
  gradNorm: [1, 0.5],
  effective: [null, null],
  rounds: rounds.map((name) => ({ name, right: [0.3, 0.4], chars: [1, 2], cut: [0, 0], credit: null })),
  rewardFirst10: 0.54,
  rewardLast10: 0.8,
})

const helped = (name: string, base: string, delta = 0.105): TrainingResult => ({
  arm: name,
  base,
  delta,
  ci95: [delta - 0.043, delta + 0.042],
  p: 0.001,
  verdict: 'moved',
  why: 'The interval excludes 0.',
})

const contrast = (name: string, against: string): ContrastResult => ({
  arm: name,
  against,
  delta: 0.0094,
  ci95: [-0.0604, 0.0791],
  p: 0.79,
  verdict: 'unresolved',
  why: 'More seeds would resolve it.',
  smallestEffect: 0.1,
  flatWithin: 0.03,
  warnings: ['The token limit cut more replies of one arm.'],
  toResolve: { seeds: 9, why: '9 seeds an arm resolve it.' },
})

const seedsTiming = (arms: readonly string[]) =>
  Object.fromEntries(
    arms.flatMap((name) =>
      ['s17', 's18'].map((seed) => [`${name}-${seed}`, { trainMinutes: 22, evaluationMinutes: 2.9 }]),
    ),
  )

/** The reference experiment's figures. */
const reference: Results = resultsSchema.parse({
  schemaVersion: 2,
  model: { name: '/home/someone/models/Qwen2.5-1.5B-Instruct', sha256: 'f00' },
  task: { name: 'gsm8k', train: 512, holdout: 120 },
  config: {},
  seeds: [17, 18],
  baseline: 'baseline',
  arms: {
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
  bases: [
    {
      name: 'base-baseline',
      protocol: 'own',
      arms: ['baseline'],
      passAt1: 0.5229,
      ci95: [0.4604, 0.5917],
      passAtK: 0.775,
      k: 4,
      chars: 719,
      board: board([0.3, 0.383, 0.558, 0.608, 0.248, 0.025], 719),
      runs: [0.5229, 0.54, 0.55],
    },
  ],
  contrasts: [contrast('recipe', 'baseline')],
  training: [helped('baseline', 'base-baseline'), helped('recipe', 'base-recipe', 0.114)],
  sequential: null,
  regrades: [],
  checks: {
    noise: { runs: [0.5229, 0.54, 0.55], runStd: 0.0125, t: 4.3027, band: 0.0538 },
    decontamination: { dropped: 0 },
    length: [{ arm: 'baseline', before: 719, after: 684 }],
    cut: [{ of: 'base-baseline', notes: 0.5, replies: 0.1 }],
    hackScan: [
      { job: 'recipe-s17', floor: 0.3, top: null, why: 'No text feature separates reward.' },
      {
        job: 'recipe-s18',
        floor: 0.3,
        top: { name: 'length', rho: 0.5 },
        why: 'Length separates reward within a problem.',
      },
    ],
    overOptimisation: { proxy: null, overOptimised: false, why: 'The reward is the target.' },
  },
  trainTrace: { baseline: [trace(17), trace(18)], recipe: [trace(17)] },
  failed: [],
  versions: {},
  timing: {
    finishedAt: '2026-01-01T00:00:00.000Z',
    minutes: 100,
    jobs: seedsTiming(['baseline', 'recipe']),
  },
} satisfies Results)

/** A study of many arms, of which arm i plays `rounds[i]` rounds. */
function study(rounds: readonly number[], nameOf = (i: number) => `arm-${i}`): Results {
  const names = rounds.map((_, i) => nameOf(i))
  const some = reference.arms.baseline!
  const played = (n: number): ReaderCounts => {
    const [first, last] = some.board.rounds
    const all = Array.from({ length: n }, (_, r) => (r === 0 ? first : last))
    const before = n > 1
    return {
      ...some.board,
      noteAcc: before ? 0.5 : null,
      voteAcc: before ? 0.5 : null,
      anyNote: before ? 0.5 : null,
      switched: all[n - 1].switched,
      rescued: all[n - 1].rescued,
      misled: all[n - 1].misled,
      notesCut: before ? 0.1 : null,
      rounds: all,
    }
  }
  return resultsSchema.parse({
    ...reference,
    baseline: names[0],
    arms: Object.fromEntries(
      names.map((name, i) => [
        name,
        {
          ...some,
          protocol: `p${i}`,
          board: played(rounds[i]),
          boardPerSeed: [played(rounds[i]), played(rounds[i])],
        },
      ]),
    ),
    bases: names.map((name, i) => ({
      ...reference.bases[0],
      name: `base-${name}`,
      protocol: `p${i}`,
      arms: [name],
      board: played(rounds[i]),
    })),
    training: names.map((name) => helped(name, `base-${name}`)),
    contrasts: names.slice(1).map((name) => contrast(name, names[0])),
    checks: {
      ...reference.checks,
      cut: names.map((name, i) => ({ of: name, notes: rounds[i] > 1 ? 0.1 : null, replies: 0.2 })),
      hackScan: names.flatMap((name) =>
        ['s17', 's18'].map((seed) => ({ ...reference.checks.hackScan[0], job: `${name}-${seed}` })),
      ),
    },
    trainTrace: Object.fromEntries(
      names.map((name, i) => {
        const turns = Array.from({ length: rounds[i] }, (_, r) => `turn ${r + 1}`)
        return [name, [trace(17, turns), trace(18, turns)]]
      }),
    ),
    timing: { ...reference.timing, jobs: seedsTiming(names) },
  } satisfies Results)
}

const widest = (text: string) => Math.max(...text.split('\n').map((line) => line.length))

describe('the table', () => {
  it('has a row for each base, seed and arm, aligned, with the checks under it', () => {
    const text = tableText(reference)
    const lines = text.split('\n')
    expect(lines[3]).toContain('120 held-out problems, seeds 17, 18')
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
      ['base, own', '0.523', '[0.460, 0.592]'],
      ['baseline, s17', '0.650', '[0.580, 0.720]'],
      ['baseline, s18', '0.683', '[0.613, 0.753]'],
      ['baseline, all', '0.667', '[0.597, 0.737]'],
      ['recipe, s17', '0.679', '[0.609, 0.749]'],
      ['recipe, s18', '0.673', '[0.603, 0.743]'],
      ['recipe, all', '0.676', '[0.606, 0.746]'],
    ])
    expect(new Set(rows.slice(1).map((row) => row.length)).size).toBe(1)
    expect(text).toMatch(/recipe - baseline +\+0\.009 \[-0\.060, \+0\.079\]: unresolved\. More seeds/)
    expect(text).toMatch(/training, recipe +\+0\.114 \[\+0\.071, \+0\.156\] against base-recipe: moved\./)
    expect(text).toMatch(/could have seen +an effect of 0\.100/)
    expect(text).toMatch(/to resolve it +9 seeds an arm resolve it\./)
    expect(text).toMatch(/warning +The token limit cut/)
    expect(text).toMatch(/noise +base runs 0\.523, 0\.540, 0\.550; run_std 0\.0125, band 0\.054/)
    expect(text).toMatch(/hack scan, recipe-s18 +Length separates/)
  })

  it('says first whether training helped, and then whether the change did', () => {
    expect(tableText(reference).split('\n').slice(0, 3)).toEqual([
      'Training helped both arms: baseline +0.105 [+0.062, +0.147], recipe +0.114 [+0.071, +0.156].',
      'Whether the change helped is unresolved: recipe - baseline +0.009 [-0.060, +0.079].',
      '',
    ])
    expect(tableMarkdown(reference).split('\n').slice(2, 4)).toEqual(
      tableText(reference).split('\n').slice(0, 2),
    )
  })

  it.each([120, 100, 80, 60])('fits a terminal of %i characters, breaks no word and loses none', (width) => {
    const names = [
      reference,
      study([2, 3]),
      study([2, 2], (i) => `an-arm-whose-name-is-as-long-as-may-be-${i}`),
    ]
    for (const results of width < 80 ? names.slice(0, 1) : names) {
      const narrow = textOf(tableLines(results, { width, explain: true }))
      expect(widest(narrow)).toBeLessThanOrEqual(width)
      const words = (text: string) => new Set(text.match(/[\w@-]*[a-z][\w@-]*/gi))
      const all = words(textOf(tableLines(results, { width: 1000, explain: true })))
      expect([...all].filter((word) => !words(narrow).has(word))).toEqual([])
    }
  })

  it('says which columns a narrow terminal leaves out, and where they are', () => {
    expect(tableText(reference)).not.toContain('Left out')
    const narrow = tableText(reference, 80).replaceAll('\n', ' ')
    expect(narrow).toContain(
      'Left out at this width: pass@4, vote_acc, any_note, chars, minutes. table.md has them.',
    )
    expect(narrow).toMatch(/arm +pass@1 +95% CI +note_acc +switched +rescued +misled +base/)
  })

  it('is Markdown with as many cells in every row', () => {
    const rows = tableMarkdown(reference)
      .split('\n')
      .filter((line) => line.startsWith('|'))
    expect(rows).toHaveLength(9)
    expect(tableMarkdown(reference)).toContain('- **could have seen**: an effect of 0.100')
    expect(new Set(rows.map((row) => row.split('|').length))).toEqual(new Set([14]))
  })

  it('shows each round by itself where some protocol has not two, with a dash for what there is none of', () => {
    expect(tableText(reference)).not.toContain('vote_right')
    const results = study([1, 2, 3])
    expect(roundRows(results).map(([name, round]) => `${name} ${round}`)).toEqual([
      'base, p0 turn 1',
      'base, p1 turn 1',
      'base, p1 turn 2',
      'base, p2 turn 1',
      'base, p2 turn 2',
      'base, p2 turn 3',
      'arm-0 turn 1',
      'arm-1 turn 1',
      'arm-1 turn 2',
      'arm-2 turn 1',
      'arm-2 turn 2',
      'arm-2 turn 3',
    ])
    expect(tableText(results)).toMatch(
      /arm-2 +turn 1 +0\.565 +0\.633 +0\.792 +– +– +– +0\.100 +684\narm-2 +turn 2 +0\.650 +0\.633 +0\.792 +0\.477/,
    )
    // One round has no notes.
    expect(tableText(results)).toMatch(/arm-0, s17 .*0\.825( +–){6} +684/)
    const markdown = tableMarkdown(results).split('\n')
    const at = markdown.indexOf('## By round')
    const rows = markdown.slice(at).filter((line) => line.startsWith('|'))
    expect(rows).toHaveLength(2 + 12)
    expect(new Set(rows.map((row) => row.split('|').length))).toEqual(new Set([12]))
  })

  it('stays readable with eight arms of six rounds: one row an arm, and all of it in the file', () => {
    const results = study([2, 6, 1, 3, 2, 4, 5, 6])
    const text = tableText(results)
    expect(widest(text)).toBeLessThanOrEqual(120)
    const rows = text.split('\n').filter((line) => /^(base, p|arm-)\d .*\[0\./.test(line))
    expect(rows).toHaveLength(16)
    expect(text).toContain('Each seed has its row in table.md.')
    expect(tableMarkdown(results)).toContain('| arm-7, s18 |')
    expect(text).toMatch(/arm-3 - arm-0 [^\n]+\ncould have seen +an effect/)
    expect(text).toMatch(/hack scan +16 of 16 trainings: no text feature/)
    expect(text.split('\n')[0]).toBe('Training helped all 8 arms.')
    expect(text.split('\n')[1]).toBe('Whether any change helped is unresolved.')
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
    // A line for the failed job, and one that says what failed means.
    expect(tableMarkdown(named).split('\n')).toHaveLength(tableMarkdown(reference).split('\n').length + 2)
  })

  it('names a job that failed, and a comparison that could not be made', () => {
    const partial: Results = {
      ...reference,
      arms: { ...reference.arms, recipe: null },
      contrasts: [],
      failed: [{ job: 'recipe-s17', why: 'step 3 failed: the loss became NaN.' }],
    }
    expect(tableText(partial)).toMatch(/recipe-s17 failed +step 3 failed/)
    expect(tableText(partial)).toMatch(/comparison +none: it takes finished trainings of two arms/)
    expect(tableText(partial)).toContain('No two arms are compared.')
  })

  it('says where each sentence comes from', () => {
    for (const [what, text, source] of checkLines(reference)) {
      expect(what).not.toBe('')
      expect(text).not.toBe('')
      expect(Object.keys(reference)).toContain(/^\w+/.exec(source)?.[0])
    }
  })
})

describe('what the columns and words mean', () => {
  it('is said of every column, verdict and line, by --explain and in table.md', () => {
    for (const column of [...columns, ...roundColumns]) expect(explain(column), column).toBeDefined()
    const results = study([1, 2, 3])
    for (const [what] of checkLines(results)) expect(explain(what), what).toBeDefined()
    const text = textOf(tableLines(results, { explain: true, width: 1000 }))
    for (const term of [
      'pass@k',
      'rescued',
      'noise',
      'hack scan',
      'A - B',
      'moved',
      'unresolved',
      'any_right',
    ]) {
      expect(text).toContain(`${term.padEnd(17)}${glossary[term]}\n`)
      expect(tableMarkdown(results)).toContain(`- **${term}**: ${glossary[term]}\n`)
    }
    // Of what is not there, nothing is said.
    expect(text).not.toContain(glossary.flat)
    expect(tableText(results)).not.toContain(glossary.noise)
  })

  it.each([
    ['pass@4', 'pass@k'],
    ['hack scan, recipe-s17', 'hack scan'],
    ['training, recipe', 'training'],
    ['recipe - baseline', 'A - B'],
    ['recipe-s17 failed', 'failed'],
  ])('of %s is that of %s', (what, term) => {
    expect(explain(what)).toBe(glossary[term])
  })

  it('is found for no other word', () => {
    expect(explain('toString')).toBeUndefined()
    expect(explain('nonsense, recipe')).toBeUndefined()
  })
})

describe('a second try', () => {
  const seats = [0, 1]
  const sights = {
    own: seats.map((seat) => [[0, seat]]),
    shared: seats.map(() => [
      [0, 0],
      [0, 1],
    ]),
  }
  const protocol = (sight: (typeof sights)['own']) => ({
    rounds: [
      { speakers: seats, sights: [null, null] },
      { speakers: seats, sights: sight },
    ],
  })
  const told: Results = {
    ...reference,
    config: {
      arms: { baseline: { protocol: protocol(sights.own) }, recipe: { protocol: protocol(sights.shared) } },
    },
  }
  const cellsOf = (results: Results, name: string, options = {}) => {
    const row = tableRows(results, options).find(([arm]) => arm === name)!
    return ['rescued', 'misled'].map((column) => row[columns.indexOf(column as (typeof columns)[number])])
  }

  it('is what `rescued` counts where readers see their own note alone: it stands in parentheses', () => {
    expect(readsItselfAlone(told, 'baseline')).toBe(true)
    expect(readsItselfAlone(told, 'recipe')).toBe(false)
    expect(cellsOf(told, 'base, own')).toEqual(['(0.248)', '(0.025)'])
    expect(cellsOf(told, 'baseline, s17')).toEqual(['(0.127)', '(0.042)'])
    expect(cellsOf(told, 'recipe, s17')).toEqual(['0.287', '0.019'])
    expect(tableText(told)).toContain('In parentheses: readers of their own note alone')
    // For programs, numbers alone.
    expect(cellsOf(told, 'base, own', { marked: false })).toEqual(['0.248', '0.025'])
  })

  it('is not told where nothing is known of who read whom', () => {
    expect(readsItselfAlone(reference, 'baseline')).toBe(false)
    expect(tableText(reference)).not.toMatch(/In parentheses|second try/)
  })

  it('is set beside what readers of a board made of wrong and right notes', () => {
    // Of 0.59 wrong notes 0.287 came right; of 0.435 with the own note alone, 0.127.
    expect(secondTry(told)).toBe(
      'recipe turns 0.486 of wrong notes right and loses 0.046 of right ones; a second try with the own note alone ' +
        '(baseline), 0.292 and 0.074',
    )
    expect(tableText(told)).toMatch(/second try +recipe turns 0\.486 of wrong notes right/)
    // Where the last to speak are not those who wrote the notes, the shares are of other seats.
    const { baseline } = told.arms
    const odd = { ...baseline!, board: { ...baseline!.board, noteAcc: 0.9 } }
    expect(secondTry({ ...told, arms: { ...told.arms, baseline: odd } })).toBeUndefined()
  })
})

describe('the two sentences', () => {
  const of = (...verdicts: ContrastResult['verdict'][]) => ({
    training: verdicts.map((verdict, i) => ({ ...helped(`arm-${i}`, 'base'), verdict })),
    contrasts: verdicts.map((verdict, i) => ({ ...contrast(`arm-${i}`, 'x'), verdict })),
  })
  it.each<[ContrastResult['verdict'][], training: string, change: string]>([
    [[], 'No arm is compared with its untrained model.', 'No two arms are compared.'],
    [['moved'], 'Training helped.', 'The change helped.'],
    [['flat'], 'Training made no difference worth having.', 'The change makes no difference worth having.'],
    [['unresolved'], 'Whether training helped is unresolved.', 'Whether the change helped is unresolved.'],
    [['moved the wrong way'], 'Training hurt.', 'The change hurt.'],
    [['moved', 'moved'], 'Training helped both arms.', 'Both changes helped.'],
    [['moved', 'moved', 'moved'], 'Training helped all 3 arms.', 'All 3 changes helped.'],
    [['moved', 'flat', 'unresolved'], 'Training helped 1 of 3 arms.', '1 of 3 changes helped.'],
    [
      ['moved', 'moved the wrong way', 'flat'],
      'Training helped 1 of 3 arms and hurt 1.',
      '1 of 3 changes helped and 1 hurt.',
    ],
    [['flat', 'moved the wrong way'], 'Training hurt 1 of 2 arms.', '1 of 2 changes hurt.'],
    [
      ['flat', 'unresolved'],
      'Whether training helped is unresolved.',
      'Whether any change helped is unresolved.',
    ],
  ])('of %j', (verdicts, training, change) => {
    expect(trainingSentence(of(...verdicts)).headline).toBe(training)
    expect(changeSentence(of(...verdicts)).headline).toBe(change)
  })
  it('have a figure for each, and tell them where there are few', () => {
    expect(said(trainingSentence(of('moved')))).toBe('Training helped: arm-0 +0.105 [+0.062, +0.147].')
    expect(trainingSentence(of(...Array<'flat'>(5).fill('flat'))).figures).toHaveLength(5)
    expect(said(changeSentence(of(...Array<'flat'>(5).fill('flat'))))).toBe(
      'No change makes a difference worth having.',
    )
  })
  it('have no tone of their own where some helped and some hurt', () => {
    expect(changeSentence(of('moved', 'moved the wrong way')).tone).toBe('unresolved')
    expect(changeSentence(of('moved', 'flat')).tone).toBe('moved')
  })
})

describe('the post', () => {
  it('states both sentences, the arms, the difference and its interval, in under 280 characters', () => {
    const text = post(reference)
    expect(text.length).toBeLessThan(280)
    for (const part of [
      'Training helped both arms',
      'unresolved',
      'recipe ("shared") 0.676',
      'baseline ("own") 0.667',
      '+0.009 [-0.060, +0.079]',
      '120 held out',
      '2 seeds',
    ]) {
      expect(text).toContain(part)
    }
    // A path of this machine is nobody's business.
    expect(text).not.toContain('/home')
  })

  it.each([
    ['the longest names', study([2, 2], (i) => `an-arm-whose-name-is-as-long-as-may-be-${i}`)],
    ['eight arms', study([2, 2, 2, 2, 2, 2, 2, 2])],
    ['one arm', study([1])],
    ['no comparison', { ...reference, contrasts: [] }],
    ['nothing at all', { ...reference, arms: {}, bases: [], contrasts: [], training: [] }],
  ])('fits with %s', (_, results) => {
    const model = { name: 'x'.repeat(300), sha256: '' }
    const text = post({ ...results, model, task: { ...results.task, name: 'y'.repeat(99) } })
    expect(text.length).toBeLessThan(280)
    expect(text).toContain(trainingSentence(results).headline.slice(0, -1))
    expect(text).toContain(changeSentence(results).headline.slice(0, -1))
  })
})
