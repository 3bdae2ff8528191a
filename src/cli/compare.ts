/** `message-board compare`: the difference of any two arms of any runs that can be compared. */
import { type ArmsCompared, type Chosen, compareArms } from '../experiment/compare.ts'
import { armName } from '../record/plan.ts'
import { type CheckLine, contrastLines } from '../report/checks.ts'
import { alignedRows, type Line, line, wrapped } from '../report/layout.ts'
import { level } from '../report/numbers.ts'
import { changeSentence } from '../report/sentences.ts'
import { checkRows, explainedLines, sentenceLines } from '../report/table.ts'
import type { OutputFlags } from './flags.ts'
import { lineWidth, printJson, printLines } from './terminal.ts'

export async function compareCommand(one: string, other: string, flags: OutputFlags): Promise<void> {
  const found = await compareArms(chosen(one), chosen(other))
  if (flags.json) printJson(found)
  else printLines(comparedLines(found, lineWidth(), flags.explain))
}

/** FOLDER or FOLDER:ARM; a drive's letter is no folder. */
function chosen(text: string): Chosen {
  const at = text.lastIndexOf(':')
  const arm = text.slice(at + 1)
  return at > 1 && armName.test(arm) ? { folder: text.slice(0, at), arm } : { folder: text }
}

/** Values longer than this are not shown: that they differ is. */
const SHOWN = 40

function comparedLines(
  { arms, problems, contrasts, differing }: ArmsCompared,
  width: number,
  explain = false,
): Line[] {
  const rows = arms.map(({ name, passAt1, ci95, seeds }) => [name, level(passAt1, ci95), seeds.join(', ')])
  const lines = contrasts.flatMap((contrast, i): CheckLine[] => [
    ...contrastLines(contrast),
    ['set otherwise', settings(differing[i]), 'experiment.json'],
  ])
  const words = [...lines.map(([what]) => what), ...contrasts.map(({ verdict }) => verdict), 'pass@1']
  const caution =
    `On the ${problems} held-out problems that both have. Which arms are compared was decided after the runs: of many ` +
    'such comparisons some come out by chance alone.'
  return [
    ...sentenceLines(changeSentence({ contrasts }), width),
    [],
    ...alignedRows([['arm', 'pass@1', 'seeds'], ...rows]).map((row, i) =>
      line(row, i === 0 ? 'faint' : undefined),
    ),
    [],
    ...checkRows(lines, width),
    [],
    ...wrapped([{ text: caution, tone: 'faint' }], width),
    ...(explain ? explainedLines(words, width) : []),
  ]
}

/** What the second arm has otherwise, the first arm's first. */
function settings(differing: ArmsCompared['differing'][number]): string {
  if (differing.length === 0) return 'nothing: they differ in their draws alone'
  return differing
    .map(({ path, before = 'absent', now = 'absent' }) =>
      before.length > SHOWN || now.length > SHOWN ? path : `${path} ${now}, not ${before}`,
    )
    .join('; ')
}
