/** post.md: the finding in under 280 characters, with its interval and its verdict. Pure: reads results.json alone. */

import { printableLine } from '../printable.ts'
import type { Results } from '../record/results.ts'
import { difference, level, three } from './numbers.ts'
import { changeSentence, type Sentence, trainingSentence } from './sentences.ts'

/** What fits in one message; the file stays under it. */
const LIMIT = 280

/** Both sentences with as many figures as there is room for, and where they were found. */
export function post(results: Results): string {
  const { model, task, seeds } = results
  const [training, change] = [trainingSentence(results), changeSentence(results)]
  const where =
    `${short(model.name)}, ${task.name.slice(0, 20)}, ${task.holdout} held out, ` +
    `${seeds.length} ${seeds.length === 1 ? 'seed' : 'seeds'}.`
  const tellings: [string, string][] = [
    [withFigures(training), changeTold(results, { protocols: true })],
    [withFigures(training), changeTold(results, { protocols: false })],
    [withFigures(training), withFigures(change)],
    [training.headline, changeTold(results, { protocols: true })],
    [training.headline, changeTold(results, { protocols: false })],
    [training.headline, withFigures(change)],
    [training.headline, change.headline],
  ]
  const texts = tellings.map((told) => `${printableLine([...told, where].join(' '))}\n`)
  return texts.find((text) => text.length < LIMIT) ?? texts[texts.length - 1]
}

const withFigures = ({ headline, figures }: Sentence) =>
  figures.length === 0 ? headline : `${headline.slice(0, -1)}: ${figures.join(', ')}.`

/** The change with its arms' levels; without a comparison, the levels that there are. */
function changeTold(results: Results, { protocols }: { protocols: boolean }): string {
  const sentence = changeSentence(results)
  const { arms, contrasts } = results
  if (contrasts.length === 0) {
    const levels = [...results.bases.map((base) => [base.name, base] as const), ...Object.entries(arms)]
    const known = levels.flatMap(([name, one]) => (one ? [`${name} ${level(one.passAt1, one.ci95)}`] : []))
    return known.length === 0 ? sentence.headline : `${sentence.headline} pass@1: ${known.join('; ')}.`
  }
  const told = (name: string) => {
    const arm = arms[name]
    const protocol = protocols && arm ? ` ("${arm.protocol}")` : ''
    return `${name}${protocol}${arm ? ` ${three(arm.passAt1)}` : ''}`
  }
  const pairs = contrasts.map((one) => `${told(one.arm)}, ${told(one.against)}: ${difference(one)}`)
  return `${sentence.headline.slice(0, -1)}: ${pairs.join('; ')}.`
}

/** The last part of a path or a hub name: the rest may be long, and may be private. */
const short = (name: string) => name.split(/[\\/]/).filter(Boolean).at(-1)?.slice(0, 30) ?? name
