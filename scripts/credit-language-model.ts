/**
 * Writes docs/credit-map.md's section on a language model from the stored cells of bench/credit-language-model.ts
 * (bench/results/credit-language-model.jsonl): `npx tsx scripts/credit-language-model.ts`. Without cells the section is
 * left out.
 */
import { compareFamily, seedsToResolveEach } from '../src/stats/index.ts'
import {
  boardsBeforeAndAfter,
  cellsOf,
  count,
  familyOf,
  fixed,
  foretold,
  interval,
  mapFamily,
  mean,
  readCells,
  readPredictions,
  signed,
} from './credit-figures.ts'
import { replaceSections, table } from './markdown.ts'

const at = (path: string) => new URL(`../${path}`, import.meta.url).pathname

/** Each world, and the one of the map that is like it. */
const worlds = { dealt: 'clues', whole: 'word-problems' } as const
const worldNames = ['dealt', 'whole'] as const
const ruleNames = ['readersOnly', 'team', 'replay']

const cells = await readCells(at('bench/results/credit-language-model.jsonl'))
const predictions = await readPredictions(at('bench/credit-language-model-predictions.json'), worldNames)
const small = await readCells(at('bench/results/credit-map.jsonl'))

/** Both worlds are one family; the small policy's contrasts are those of the map. */
const contrasts = worldNames.map((world) => {
  const family = familyOf(cells, world, ruleNames, 0.05 / worldNames.length)
  const found = compareFamily(family)
  const seeds = found.length > 0 ? seedsToResolveEach(family) : []
  return {
    world,
    found: found.map((contrast, i) => ({ ...contrast, toResolve: seeds[i].why })),
    before: compareFamily(mapFamily(small, worlds[world])),
  }
})

/** What the front page shows: the world where nobody can do it alone. */
function frontTable(): string {
  const { found } = contrasts[0]
  const rows = ['base', ...ruleNames].map((rule) => {
    const some = cellsOf(cells, 'dealt', rule)
    const one = found.find(({ arm }) => arm === rule)
    return [
      rule === 'base' ? 'untrained' : `\`${rule}\``,
      fixed(mean(some.map(({ passAt1 }) => passAt1))),
      fixed(mean(some.map(({ carries }) => carries ?? 0))),
      one ? `${signed(one.delta)} ${interval(one.ci95)}, ${one.verdict}` : '',
    ]
  })
  return table(
    ['what a note earns', 'right', 'notes that tell their part', 'difference to `readersOnly`'],
    rows,
  )
}

function cellsTable(): string {
  const rows = contrasts.flatMap(({ world, found }) =>
    ['base', ...ruleNames].flatMap((rule) => {
      const some = cellsOf(cells, world, rule)
      if (some.length === 0) return []
      const one = found.find(({ arm }) => arm === rule)
      const carries = some.flatMap(({ carries }) => carries ?? [])
      return [
        [
          world,
          rule === 'base' ? 'untrained' : rule,
          `${some.length}`,
          fixed(mean(some.map(({ passAt1 }) => passAt1))),
          one ? `${signed(one.delta)} ${interval(one.ci95)}` : '',
          one?.verdict ?? '',
          foretold(predictions[world][rule], one?.delta),
          fixed(count(some, 'noteAcc')),
          carries.length > 0 ? fixed(mean(carries)) : '',
          fixed(count(some, 'notesCut')),
          (count(some, 'noteChars') ?? 0).toFixed(0),
          fixed(count(some, 'rescued')),
          fixed(count(some, 'misled')),
          rule === 'base' ? '' : mean(some.map(({ seconds }) => seconds.train)).toFixed(0),
        ],
      ]
    }),
  )
  const head = [
    'world',
    'rule',
    'seeds',
    'pass@1',
    'difference to readersOnly',
    'verdict',
    'predicted',
    'notes right',
    'notes that tell their part',
    'notes cut',
    'note chars',
    'rescued',
    'misled',
    's a training',
  ]
  return table(head, rows)
}

/** Whether the small policy's sign is the language model's too: told only where both intervals leave out 0. */
function signsTable(): string {
  const rows = contrasts.flatMap(({ world, found, before }) =>
    found.map(({ arm, delta, ci95 }) => {
      const other = before.find((contrast) => contrast.arm === arm)
      const told = [ci95, ...(other ? [other.ci95] : [])].every(([low, high]) => low > 0 || high < 0)
      const sign =
        !other || !told ? 'not told' : Math.sign(delta) === Math.sign(other.delta) ? 'held' : 'turned'
      return [
        `${world}, ${worlds[world]}`,
        arm,
        other ? `${signed(other.delta)} ${interval(other.ci95)}` : '',
        `${signed(delta)} ${interval(ci95)}`,
        sign,
      ]
    }),
  )
  return table(['worlds', 'rule', 'small policy', 'language model', 'sign'], rows)
}

/** What would resolve each contrast that is not. */
function unresolvedLines(): string[] {
  return contrasts.flatMap(({ world, found }) =>
    found
      .filter(({ verdict }) => verdict === 'unresolved')
      .map(({ arm, smallestEffect, toResolve }) => {
        const seen =
          smallestEffect === null
            ? ''
            : ` An effect of ${smallestEffect.toFixed(3)} would have been seen four times in five.`
        return `- **${world}, ${arm}**: unresolved.${seen} ${toResolve}`
      }),
  )
}

function section(): string {
  if (cells.length === 0) return ''
  const used = Object.entries(cells[0].versions).map(([name, version]) => `${name} ${version}`)
  const machines = [...new Set(cells.map(({ machine }) => machine))].join('; ')
  const best = [...contrasts[0].found].sort((a, b) => b.delta - a.delta)[0]
  const boards = best
    ? boardsBeforeAndAfter(cellsOf(cells, 'dealt', 'base')[0], cellsOf(cells, 'dealt', best.arm)[0], 3)
    : ''
  return [
    '## A language model: does the sign hold?',
    '',
    'SmolLM2-135M-Instruct on problems of SVAMP, one operation on numbers up to 60, in two worlds. `dealt`: each writer knows',
    'the question and some of the sentences before it, and no seat of the four knows all the numbers; `whole`: the same',
    'problems, told to everybody. One start for both, by imitation (`bench/warm-start.ts --split sentences`, on 250 other',
    'problems): solutions of whole problems, notes that repeat what their writer knows in 40% and guess in the rest, and',
    'solutions by readers of such notes. Then 40 steps of twelve boards at the defaults for a named model, notes and replies of',
    '64 tokens. The four contrasts are one family at 5%. What was expected was written down before any of it ran',
    '([bench/credit-language-model-predictions.json](../bench/credit-language-model-predictions.json)).',
    '',
    `${cells.length} cells, ${[...cells[0].right].length} held-out problems, four replies each; ${machines}; ${used.join(', ')}.`,
    '',
    cellsTable(),
    '',
    'Against the small policy, in the world that is alike: `held` or `turned` where both intervals leave out 0.',
    '',
    signsTable(),
    '',
    ...unresolvedLines(),
    ...(boards ? ['', boards] : []),
    '',
    '```sh',
    'npx tsx bench/warm-start.ts --model SmolLM2-135M-Instruct --svamp SVAMP.json --out warm --device cuda \\',
    '  --split sentences --problems 250 --steps 300 --largest 60',
    'npx tsx bench/credit-language-model.ts --model warm --task warm/problems.jsonl --out cells.jsonl --device cuda',
    '```',
  ].join('\n')
}

await replaceSections(at('docs/credit-map.md'), { 'language model': section() })
if (cells.length > 0) await replaceSections(at('README.md'), { 'language model': frontTable() })
if (cells.length === 0) console.log('There are no cells: the section is left out.')
for (const { world, found } of contrasts) {
  for (const { arm, delta, ci95, verdict } of found) {
    console.log(`${world.padEnd(8)} ${arm.padEnd(8)} ${signed(delta)} ${interval(ci95)} ${verdict}`)
  }
}
