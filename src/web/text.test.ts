import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JobView, Side } from '../view/types.ts'
import { curves, smoothed } from './curves.ts'
import { csv, duration, flat } from './format.ts'
import { postsOf, postTitle, readsOf, roundTitle } from './names.ts'
import { fragmentOf, parseRoute, type Route } from './route.ts'
import { answerSpan, pieces } from './texts.ts'

describe('a text in pieces', () => {
  it('loses nothing but the hidden characters, which are named', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.option(fc.string({ unit: 'binary' })), (text, answer) => {
        const found = pieces(text, answer)
        const back = found
          .map(({ kind, text: piece }) =>
            kind === 'hidden' ? String.fromCodePoint(Number.parseInt(piece.slice(2), 16)) : piece,
          )
          .join('')
        expect(back).toBe(text)
        // Nothing that turns the direction of what follows, or that is not seen, is left in the others.
        for (const { kind, text: piece } of found) {
          if (kind !== 'hidden') expect(piece).not.toMatch(/[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/)
        }
      }),
    )
  })

  it('marks the last box that holds the answer, or its last mention', () => {
    const text = 'First \\boxed{4}, no: \\boxed{5}. Then 4.'
    const marked = (answer: string | null) => {
      const span = answerSpan(text, answer)
      return span && text.slice(...span)
    }
    expect(marked('4')).toBe('\\boxed{4}')
    expect(marked('5')).toBe('\\boxed{5}')
    expect(marked(null)).toBeNull()
    expect(answerSpan('So it is 12 and 12.', '12')).toEqual([16, 18])
    expect(answerSpan('Nothing', '7')).toBeNull()
    expect(
      pieces(text, '5', 10)
        .map(({ text: piece }) => piece)
        .join(''),
    ).toBe(text.slice(0, 10))
  })
})

describe('CSV', () => {
  it('quotes what must be quoted, and lets no cell be a formula', () => {
    expect(csv([{ a: 'x,y', b: 'say "hi"' }])).toBe('a,b\r\n"x,y","say ""hi"""\r\n')
    expect(csv([{ a: '=1+1', b: -2, c: null, d: 'two\nlines' }])).toBe(
      'a,b,c,d\r\n\'=1+1,-2,,"two\nlines"\r\n',
    )
    expect(csv([])).toBe('\r\n')
  })
})

describe('settings as paths', () => {
  it('has one for each leaf', () => {
    expect(flat({ train: { steps: 4, lora: { rank: 2 } }, name: 'x', list: [1, 2], none: null })).toEqual([
      ['train.steps', '4'],
      ['train.lora.rank', '2'],
      ['name', 'x'],
      ['list', '[1,2]'],
      ['none', 'null'],
    ])
  })
  it('counts the members of a list that have settings of their own', () => {
    expect(flat({ rounds: [{ name: 'note', speakers: [0, 1] }, { name: 'reply' }], none: [] })).toEqual([
      ['rounds.1.name', 'note'],
      ['rounds.1.speakers', '[0,1]'],
      ['rounds.2.name', 'reply'],
      ['none', '[]'],
    ])
  })
})

describe('durations', () => {
  it.each([
    [0, '0s'],
    [59.6, '1m 0s'],
    [75, '1m 15s'],
    [7265, '2h 1m'],
  ])('%s seconds', (seconds, text) => {
    expect(duration(seconds)).toBe(text)
  })
})

describe('addresses', () => {
  const name = fc.string({ unit: 'grapheme', minLength: 1 })
  const routes = (report: boolean): fc.Arbitrary<Route> => {
    const run = report ? fc.constant(null) : name
    const views: fc.Arbitrary<Route>[] = [
      fc.record({ view: fc.constant('run' as const), run, section: fc.option(name, { nil: null }) }),
      fc.record({
        view: fc.constant('problem' as const),
        run,
        id: name,
        seed: fc.option(fc.nat(), { nil: null }),
        arms: fc.option(fc.array(fc.stringMatching(/^[A-Za-z][A-Za-z0-9_-]{0,39}$/), { minLength: 1 }), {
          nil: null,
        }),
      }),
      fc.record({
        view: fc.constant('training' as const),
        run,
        job: name,
        step: fc.nat(),
        id: name,
        board: fc.nat(),
      }),
    ]
    if (!report) {
      views.push(
        fc.constant({ view: 'runs' }),
        fc.record({
          view: fc.constant('compare' as const),
          runs: fc.array(name, { minLength: 2, maxLength: 5 }),
        }),
      )
    }
    return fc.oneof(...views)
  }
  it.each([true, false])('lead back to the view that they name (report: %s)', (report) => {
    fc.assert(
      fc.property(routes(report), (route) => {
        expect(parseRoute(fragmentOf(route), report)).toEqual(route)
        // What was chosen there stands behind it, and is no part of it.
        expect(parseRoute(`${fragmentOf(route)}?q=/problem/x&show=cut`, report)).toEqual(route)
      }),
    )
  })
  it('that make no sense lead to the beginning', () => {
    for (const fragment of ['', '#', '#/%', '#/nothing', '#/problem']) {
      expect(parseRoute(fragment, true)).toEqual({ view: 'run', run: null, section: null })
      expect(parseRoute(fragment, false)).toEqual({ view: 'runs' })
    }
  })
})

describe('names', () => {
  const round = (name: string, speakers: number[]) => ({ name, speakers, sees: null })
  const seats = ['copy 1', 'copy 2', 'critic']
  const rounds = [
    round('note', [0, 1, 2]),
    round('turn 2', [0, 1, 2]),
    round('reply', [0, 1]),
    round('answer', [2]),
  ]
  const side = { seats, rounds }

  it('of rounds are of their posts', () => {
    expect(rounds.map(postsOf)).toEqual(['notes', 'turn 2', 'replies', 'answer'])
    expect(postsOf(round('play', [0, 1]))).toBe('plays')
    const of = (...rounds: Side['rounds']) => ({ rounds }) as Side
    expect(roundTitle([of(round('note', [0, 1])), of(round('note', [0, 1]))], 0)).toBe('Notes')
    expect(roundTitle([of(round('note', [0, 1])), of(round('turn 1', [0, 1]))], 0)).toBe('Round 1')
  })
  it('of posts are of their round, or of a seat with a name of its own', () => {
    expect([
      postTitle(side, 0, 1),
      postTitle(side, 1, 1),
      postTitle(side, 0, 2),
      postTitle(side, 3, 2),
    ]).toEqual(['Note 2', 'Copy 2', 'Critic', 'Critic'])
  })
  it.each<[string, [number, number][]]>([
    ['nothing', []],
    ['note 2', [[0, 1]]],
    [
      'note 1, critic',
      [
        [0, 0],
        [0, 2],
      ],
    ],
    [
      'all notes',
      [
        [0, 0],
        [0, 1],
        [0, 2],
      ],
    ],
    [
      'all of turn 2',
      [
        [1, 0],
        [1, 1],
        [1, 2],
      ],
    ],
    [
      'all notes; turn 2: copy 1',
      [
        [0, 0],
        [0, 1],
        [0, 2],
        [1, 0],
      ],
    ],
    ['critic', [[3, 2]]],
  ])('say that a post read %s', (words, reads) => {
    expect(readsOf(side, { reads })).toBe(words)
  })
})

describe('curves', () => {
  const sides = [{ arm: null }, { arm: 0 }, { arm: 1 }] as Side[]
  const job = (seed: number | null, rewards: (number | null)[], side = 2) =>
    ({
      side,
      seed,
      trace: { step: rewards.map((_, i) => i + 1), measures: { reward: rewards } },
    }) as unknown as JobView
  const reward = (jobs: JobView[]) => curves(jobs, sides, ({ measures }) => measures.reward)

  it('are the mean over the seeds that have reached a step, between the lowest and the highest', () => {
    const [curve] = reward([job(17, [0, 0, 0, 0]), job(18, [1, 1, 1])])
    expect(curve.side).toBe(sides[2])
    expect(curve.mean.map(({ mean, low, high }) => [mean, low, high])).toEqual([
      [0.5, 0, 1],
      [0.5, 0, 1],
      [0.5, 0, 1],
      [0, 0, 0],
    ])
    expect(reward([job(17, [])])).toEqual([])
  })

  it('are one for each arm, and leave out what was not measured', () => {
    const found = reward([
      job(17, [null, 1, null, 0]),
      job(17, [1, 1], 1),
      job(null, [1], 0),
      job(18, [null]),
    ])
    expect(found.map(({ side, seeds }) => [side.arm, seeds.map(({ values }) => values.length)])).toEqual([
      [0, [2]],
      [1, [2]],
    ])
    expect(found[1].mean.map(({ step }) => step)).toEqual([2, 4])
    expect(curves([job(17, [1])], sides, () => undefined)).toEqual([])
  })

  it('are smoothed around each step, with fewer at the ends and beside gaps', () => {
    const points = (values: Record<number, number>) =>
      Object.entries(values).map(([step, value]) => ({ step: Number(step), value }))
    const means = (values: Record<number, number>, window: number) =>
      smoothed(points(values), window).map(({ value }) => value)
    expect(means({ 1: 0, 2: 0, 3: 5, 4: 0, 5: 0 }, 5)).toEqual([5 / 3, 5 / 4, 1, 5 / 4, 5 / 3])
    expect(means({ 1: 1, 2: 2, 3: 3 }, 1)).toEqual([1, 2, 3])
    // Five steps apart, nothing is near in a window of nine; of eleven, the next one on each side is.
    expect(means({ 5: 1, 10: 2, 15: 6 }, 9)).toEqual([1, 2, 6])
    expect(means({ 5: 1, 10: 2, 15: 6 }, 11)).toEqual([1.5, 3, 4])
  })

  it('move no line where only some steps are looked at', () => {
    const all = curves([job(17, [0, 1, 0, 1, 1])], sides, ({ measures }) => measures.reward)
    const some = curves([job(17, [0, 1, 0, 1, 1])], sides, ({ measures }) => measures.reward, {
      span: [2, 3],
    })
    expect(some[0].mean).toEqual(all[0].mean.slice(1, 3))
    expect(some[0].seeds[0].values.map(({ step }) => step)).toEqual([2, 3])
  })
})
