/** post.md: the finding in under 280 characters, with its interval and its verdict. Pure: reads results.json alone. */
import type { Results } from '../experiment/results.ts'
import { printableLine } from '../printable.ts'
import { signed, three } from './rows.ts'

/** What fits in one message; the file stays under it. */
const LIMIT = 280

export function post(results: Results): string {
  const { arms, delta, model, task } = results
  const { baseline, recipe } = arms
  const where = `${printableLine(short(model.name)).slice(0, 30)}, ${printableLine(task.name).slice(0, 20)}, ${task.holdout} held out`
  const level = (name: string, arm: { passAt1: number; ci95: readonly [number, number] } | null) =>
    arm ? [`${name} ${three(arm.passAt1)} [${three(arm.ci95[0])}, ${three(arm.ci95[1])}]`] : []
  if (!delta || !baseline || !recipe) {
    const levels = [...level('base', arms.base), ...level('baseline', baseline), ...level('recipe', recipe)]
    return ended(`No comparison. pass@1: ${levels.join('; ') || 'no job finished'} (${where}).`)
  }
  const [low, high] = delta.ci95
  const [ours, theirs] = [recipe, baseline].map(({ reads }) => printableLine(reads).slice(0, 16))
  return ended(
    `After RL, do copies that read the board "${ours}" answer better than with "${theirs}"? ` +
      `${verdicts[delta.verdict]}. pass@1 ${three(recipe.passAt1)} against ${three(baseline.passAt1)}, ` +
      `${signed(delta.recipeVsBaseline)} [${signed(low)}, ${signed(high)}]. ` +
      `${where}, ${baseline.seeds.length} + ${recipe.seeds.length} seeds.`,
  )
}

const verdicts = {
  moved: 'Yes',
  'moved the wrong way': 'No, worse',
  flat: 'Flat: no difference worth having',
  unresolved: 'Unresolved',
} as const

/** The last part of a path or a hub name: the rest may be long, and may be private. */
const short = (name: string) => name.split(/[\\/]/).filter(Boolean).at(-1)?.slice(0, 30) ?? name

function ended(text: string): string {
  if (text.length + 1 >= LIMIT) throw new RangeError(`the post has ${text.length} characters`)
  return `${text}\n`
}
