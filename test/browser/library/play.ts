/** What a page and Node both play: a problem, the same with its first note edited, and what each note did. */
import {
  type GrowingText,
  noteEffects,
  openAuthor,
  openEngine,
  playProblem,
  replayEdited,
} from '../../../src/browser.ts'
import { small } from './experiment.ts'

export async function playTable(onText: (text: GrowingText) => void) {
  const experiment = small(1)
  const table = { experiment, arm: 'recipe', seed: 3 }
  const engine = await openEngine({ lanes: 2, device: 'wasm' })
  try {
    const author = await openAuthor(engine)
    const [problem] = (await experiment.task.load()).holdout
    const played = await playProblem(author, problem, { ...table, onText })
    const edited = await replayEdited(author, played, { note: [0, 0], text: 'It is \\boxed{7}.' }, table)
    const effects = await noteEffects(author, edited, table)
    return { played: played.episode, edited: edited.episode, effects }
  } finally {
    await engine.close()
  }
}
