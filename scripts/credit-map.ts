/**
 * Makes docs/credit-map.md's tables, docs/images/credit-map.svg and the boards of docs/worlds.md from the stored cells of
 * the map of credit (bench/results/credit-map.jsonl, written by bench/credit-map.ts) and from what was predicted of them
 * (bench/credit-map-predictions.json): `npx tsx scripts/credit-map.ts`. No figure of the page is written by hand.
 */
import { type Cell, influenceFiguresSchema } from '../bench/credit-map-cell.ts'
import { readJsonFile, writeFileAtomic } from '../src/files.ts'
import { type Contrast, compareFamily } from '../src/stats/index.ts'
import {
  type Board,
  boardsBeforeAndAfter,
  cellsOf,
  compareGroups,
  count,
  fixed,
  foretold,
  interval,
  mapFamily,
  mean,
  readCells,
  readPredictions,
  ruleNames,
  signed,
  worldNames,
} from './credit-figures.ts'
import { replaceSections, table } from './markdown.ts'

const at = (path: string) => new URL(`../${path}`, import.meta.url).pathname

const predictions = await readPredictions(at('bench/credit-map-predictions.json'), worldNames)
const cells = await readCells(at('bench/results/credit-map.jsonl'))
const of = (world: string, rule: string, board: Partial<Board> = {}) => cellsOf(cells, world, rule, board)

const contrasts = Object.fromEntries(
  worldNames.map((world) => [world, compareFamily(mapFamily(cells, world))]),
)

const difference = (found: Contrast | undefined) =>
  found ? `${signed(found.delta)} ${interval(found.ci95)}` : ''
const seedsOf = (some: readonly Cell[]) => `${some.length}`
const passOf = (some: readonly Cell[]) => fixed(mean(some.map(({ passAt1 }) => passAt1)))
const NOT_YET = ''

/** Every rule at the tokens that 40 steps of readers alone take. */
function budgetTable(world: string): string {
  const budgets = [...new Set(cells.filter((cell) => cell.world === world).map(({ budget }) => budget))]
  const budget = budgets.find((one) => one !== null)
  if (budget == null) return NOT_YET
  const found = compareFamily(mapFamily(cells, world, { budget }))
  const rows = ruleNames.flatMap((rule) => {
    const some = of(world, rule, { budget })
    if (some.length === 0) return []
    const one = found.find(({ arm }) => arm === rule)
    const steps = mean(some.map((cell) => cell.steps)).toFixed(0)
    return [[rule, seedsOf(some), steps, passOf(some), difference(one), one?.verdict ?? '']]
  })
  const head = ['rule', 'seeds', 'steps', 'pass@1', 'difference to readersOnly', 'verdict']
  return `${(budget / 1000).toFixed(0)}k completion tokens each.\n\n${table(head, rows)}`
}

/** One table of boards: for each of them, rules against readers alone on the same board; one family. */
function boardsTable(
  what: string,
  boards: readonly { name: string; world: string; board: Partial<Board> }[],
  rules: readonly string[],
): string {
  const groups = Object.fromEntries(
    boards.flatMap(({ name, world, board }) =>
      ['readersOnly', ...rules].map((rule) => [`${name} ${rule}`, of(world, rule, board)]),
    ),
  )
  const pairs = boards.flatMap(({ name }) =>
    rules.map((rule) => ({ arm: `${name} ${rule}`, against: `${name} readersOnly` })),
  )
  const found = compareGroups(groups, pairs, of(boards[0].world, 'base'))
  if (boards.filter(({ name }) => groups[`${name} readersOnly`].length > 1).length < 2) return NOT_YET
  const rows = boards.flatMap(({ name }) =>
    ['readersOnly', ...rules].flatMap((rule) => {
      const some = groups[`${name} ${rule}`]
      if (some.length === 0) return []
      const one = found.find(({ arm }) => arm === `${name} ${rule}`)
      const carries = some[0].carries === null ? '' : fixed(mean(some.map((cell) => cell.carries ?? 0)))
      const seconds = (mean(some.map((cell) => cell.seconds.train)) / some[0].steps).toFixed(2)
      return [
        [name, rule, seedsOf(some), passOf(some), difference(one), one?.verdict ?? '', carries, seconds],
      ]
    }),
  )
  const head = [what, 'rule', 'seeds', 'pass@1', 'difference to readersOnly', 'verdict', 'notes that tell']
  return table([...head, 's a step'], rows)
}

/** What the faithful world was to show after training, beside what it shows: readers alone, on both boards. */
function targetsTable(): string {
  const world = 'word-problems'
  const boards = ['own', 'shared'].map((reads) => of(world, 'readersOnly', { reads }))
  if (boards.some((some) => some.length === 0)) return NOT_YET
  const value = (some: readonly Cell[], name: string) => count(some, name) ?? 0
  const rows: [string, string, (some: readonly Cell[]) => string][] = [
    ['pass@1', 'own note: 0.10 above untrained', passOf],
    [
      'reading - vote',
      'at least 0.05',
      (some) => signed(mean(some.map(({ passAt1 }) => passAt1)) - value(some, 'voteAcc')),
    ],
    ['vote - notes right', 'at most 0.12', (some) => signed(value(some, 'voteAcc') - value(some, 'noteAcc'))],
    ['misled', 'at most 0.05', (some) => fixed(value(some, 'misled'))],
    ['rescued', '0.12 to 0.30', (some) => fixed(value(some, 'rescued'))],
    ['notes cut', '', (some) => fixed(value(some, 'notesCut'))],
  ]
  const head = [
    'after 40 steps',
    'wanted',
    `own (${boards[0].length} seeds)`,
    `shared (${boards[1].length} seeds)`,
  ]
  return table(
    head,
    rows.map(([name, wanted, cell]) => [name, wanted, ...boards.map(cell)]),
  )
}

/** The reference's own question: readers alone, their own note against everybody's. */
function referenceTable(): string {
  const world = 'word-problems'
  const groups = {
    own: of(world, 'readersOnly', { reads: 'own' }),
    shared: of(world, 'readersOnly', { reads: 'shared' }),
  }
  const [found] = compareGroups(groups, [{ arm: 'shared', against: 'own' }], of(world, 'base'))
  if (!found) return NOT_YET
  const rows = Object.entries(groups).map(([reads, some]) => {
    const [notes, vote] = [count(some, 'noteAcc') ?? 0, count(some, 'voteAcc') ?? 0]
    return [
      reads,
      seedsOf(some),
      passOf(some),
      signed(mean(some.map(({ passAt1 }) => passAt1)) - vote),
      signed(vote - notes),
      fixed(count(some, 'rescued')),
      fixed(count(some, 'misled')),
      fixed(count(some, 'notesCut')),
    ]
  })
  const head = [
    'board',
    'seeds',
    'pass@1',
    'reading - vote',
    'vote - notes',
    'rescued',
    'misled',
    'notes cut',
  ]
  return `shared - own: ${difference(found)}, ${found.verdict}. ${found.why}\n\n${table(head, rows)}`
}

const influence = await readJsonFile(at('bench/results/credit-influence.json'), influenceFiguresSchema)

/** What readers make of notes: by the seats of both, and by what the notes were. */
function influenceTable(world: string): string {
  const { jobs } = influence.worlds[world]
  const nats = (value: number | null) => (value === null ? '–' : signed(value, 2))
  const seats = jobs[0].bySeats.map((_, seat) => seat)
  const named = (rule: string) => (rule === 'base' ? 'untrained' : rule)
  const rows = jobs.flatMap(({ rule, bySeats, whole, cut, right, wrong }) =>
    seats.map((note) => [
      note === 0 ? named(rule) : '',
      `${note + 1}`,
      ...bySeats[note].map(nats),
      ...(note === 0 ? [right, wrong, whole, cut].map(({ change }) => nats(change)) : ['', '', '', '']),
    ]),
  )
  const head = ['', 'note of seat', ...seats.map((seat) => `read by ${seat + 1}`)]
  return (
    `Seed 1, means over ${jobs[0].problems} boards, in nats.\n\n` +
    table([...head, 'right notes', 'wrong', 'whole', 'cut'], rows)
  )
}

function worldTable(world: string): string {
  const rows = ['base', ...ruleNames].flatMap((rule) => {
    const some = of(world, rule)
    if (some.length === 0) return []
    const found = contrasts[world].find(({ arm }) => arm === rule)
    const { sampled, scored, trained } = some[0].tokens
    return [
      [
        rule === 'base' ? 'untrained' : rule,
        `${some.length}`,
        fixed(mean(some.map(({ passAt1 }) => passAt1))),
        difference(found),
        found?.verdict ?? '',
        foretold(predictions[world][rule], found?.delta),
        fixed(count(some, 'noteAcc')),
        world === 'word-problems' ? '' : fixed(mean(some.map(({ carries }) => carries ?? 0))),
        fixed(count(some, 'notesCut')),
        (count(some, 'noteChars') ?? 0).toFixed(0),
        fixed(count(some, 'rescued')),
        fixed(count(some, 'misled')),
        rule === 'base' ? '' : `${((sampled + scored + trained) / 1000).toFixed(0)}k`,
        rule === 'base' ? '' : (mean(some.map(({ seconds }) => seconds.train)) / some[0].steps).toFixed(2),
      ],
    ]
  })
  const head = [
    'rule',
    'seeds',
    'pass@1',
    'difference to readersOnly',
    'verdict',
    'predicted',
    'notes right',
    world === 'clues' ? 'notes that tell their part' : world === 'insight' ? 'notes with a trial' : '',
    'notes cut',
    'note chars',
    'rescued',
    'misled',
    'tokens',
    's a step',
  ]
  const empty = head.indexOf('')
  const kept = (row: readonly string[]) => row.filter((_, i) => i !== empty)
  return table(kept(head), rows.map(kept))
}

/** The first boards before training and after it, under the rule that was best in its world. */
function boardsOf(world: string, boards: number): string {
  const best = [...contrasts[world]].sort((a, b) => b.delta - a.delta)[0]
  return best ? boardsBeforeAndAfter(of(world, 'base')[0], of(world, best.arm)[0], boards) : ''
}

/** Worlds by rules: each difference with its simultaneous interval, and what was predicted as a band. */
function picture(): string {
  const width = 960
  const [left, row, top] = [130, 26, 40]
  const panel = (width - left - 20) / worldNames.length
  const rules = ruleNames.filter((rule) => rule !== 'readersOnly')
  const height = top + rules.length * row + 40
  const parts: string[] = []
  worldNames.forEach((world, w) => {
    const found = contrasts[world]
    const guesses = Object.values(predictions[world])
    const most = Math.max(
      0.05,
      ...found.flatMap(({ ci95 }) => ci95.map(Math.abs)),
      ...guesses.flatMap(({ low, high }) => [Math.abs(low), Math.abs(high)]),
    )
    const from = left + w * panel
    const x = (value: number) => from + panel / 2 + (value / most) * (panel / 2 - 16)
    parts.push(`<text x="${from + panel / 2}" y="20" text-anchor="middle" class="h">${world}</text>`)
    parts.push(`<line x1="${x(0)}" x2="${x(0)}" y1="${top - 8}" y2="${height - 36}" class="zero"/>`)
    // Those at the edges end there: the next panel's begin right behind.
    const ticks = [
      [-most, 'start'],
      [0, 'middle'],
      [most, 'end'],
    ] as const
    for (const [tick, anchor] of ticks) {
      parts.push(`<text x="${x(tick)}" y="${height - 18}" text-anchor="${anchor}">${signed(tick)}</text>`)
    }
    rules.forEach((rule, r) => {
      const y = top + r * row
      const guess = predictions[world][rule]
      if (guess) {
        parts.push(
          `<rect x="${x(guess.low)}" y="${y - 8}" width="${x(guess.high) - x(guess.low)}" height="16" class="guess"/>`,
        )
      }
      const one = found.find(({ arm }) => arm === rule)
      if (!one) return
      const kind = one.verdict === 'moved' ? 'up' : one.verdict === 'moved the wrong way' ? 'down' : 'none'
      parts.push(
        `<line x1="${x(one.ci95[0])}" x2="${x(one.ci95[1])}" y1="${y}" y2="${y}" class="${kind}"/>`,
        `<circle cx="${x(one.delta)}" cy="${y}" r="4" class="${kind}"/>`,
      )
    })
  })
  rules.forEach((rule, r) => {
    parts.push(`<text x="${left - 10}" y="${top + r * row + 4}" text-anchor="end">${rule}</text>`)
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-label="Difference of pass@1 to readers alone, by world and rule">`,
    // The scheme of the page that shows it, or the viewer's own.
    '<style>text{font:13px system-ui,sans-serif;fill:#222}.h{font-weight:600}.zero{stroke:#999}.guess{fill:#d8dee9}',
    'line.up,line.down,line.none{stroke-width:2}line.up{stroke:#0a7d4f}circle.up{fill:#0a7d4f}',
    'line.down{stroke:#b3261e}circle.down{fill:#b3261e}line.none{stroke:#555}circle.none{fill:#555}',
    '@media (prefers-color-scheme:dark){text{fill:#e9e9e6}.zero{stroke:#777}.guess{fill:#3a4150}',
    'line.up{stroke:#5fce8a}circle.up{fill:#5fce8a}line.down{stroke:#ff8a80}circle.down{fill:#ff8a80}',
    'line.none{stroke:#b5b8bd}circle.none{fill:#b5b8bd}}</style>',
    ...parts,
    '</svg>',
    '',
  ].join('\n')
}

/** Sections that the page has once their cells are stored. */
const further: Record<string, string> = {
  ...Object.fromEntries(worldNames.map((world) => [`tokens ${world}`, budgetTable(world)])),
  reads: boardsTable(
    'who reads whom',
    ['own', 'ring', 'random 2', 'shared'].map((reads) => ({ name: reads, world: 'clues', board: { reads } })),
    ['replay'],
  ),
  rounds: boardsTable(
    'rounds',
    [2, 3].map((rounds) => ({ name: `${rounds}`, world: 'clues', board: { rounds } })),
    ['replay'],
  ),
  copies: boardsTable(
    'copies',
    [4, 8].map((copies) => ({ name: `${copies}`, world: 'clues', board: { copies } })),
    ['team', 'replay'],
  ),
  reference: referenceTable(),
}

await writeFileAtomic(at('docs/images/credit-map.svg'), picture())
const machines = [...new Set(cells.map(({ machine }) => machine))].join('; ')
const seeds = Math.max(...cells.map(({ seed }) => seed))
const used = Object.entries(cells[0].versions).map(([name, version]) => `${name} ${version}`)
const hours = cells.reduce((sum, { seconds }) => sum + seconds.train + seconds.evaluation, 0) / 3600
/** Between which sizes a world's rules' smallest visible effects lie. */
const visible = worldNames.map((world) => {
  const effects = contrasts[world].flatMap(({ smallestEffect }) => smallestEffect ?? [])
  return `${world} ${fixed(Math.min(...effects))} to ${fixed(Math.max(...effects))}`
})
await replaceSections(at('docs/credit-map.md'), {
  'made of':
    `${cells.length} cells, seeds 1 to ${seeds}, 240 held-out problems, four replies each; ${machines}; ` +
    `${used.join(', ')}; ${hours.toFixed(1)} hours of one core. By rule, the smallest effect that would have been seen ` +
    `four times in five: ${visible.join(', ')}.`,
  ...Object.fromEntries(worldNames.map((world) => [`table ${world}`, worldTable(world)])),
  ...Object.fromEntries(worldNames.map((world) => [`influence ${world}`, influenceTable(world)])),
  ...Object.fromEntries(worldNames.map((world) => [`boards ${world}`, boardsOf(world, 3)])),
  ...Object.fromEntries(Object.entries(further).filter(([, text]) => text !== NOT_YET)),
})
await replaceSections(at('docs/worlds.md'), {
  ...Object.fromEntries(worldNames.map((world) => [`board ${world}`, boardsOf(world, 1)])),
  targets: targetsTable(),
})
for (const world of worldNames) {
  for (const { arm, delta, ci95, verdict } of contrasts[world]) {
    console.log(`${world.padEnd(14)} ${arm.padEnd(12)} ${signed(delta)} ${interval(ci95)} ${verdict}`)
  }
}
