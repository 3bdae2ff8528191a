/** The policy's figures before any RL: the experiment's own rounds and verifier, on held-out problems of each world. */
import { countEpisodes, finalScores, type ReaderCounts } from '../../src/board/counts.ts'
import { playPolicy } from '../../src/board/policy-writer.ts'
import { resolveProtocol } from '../../src/board/protocol.ts'
import { board as boardOf } from '../../src/board/protocols.ts'
import { own, shared } from '../../src/board/sights.ts'
import { openOnnxEngine } from '../../src/engine/onnx/index.ts'
import { smallPolicySettings } from '../../src/experiment/defaults.ts'
import { mathGrader } from '../../src/grade/grader.ts'
import { passAt } from '../../src/stats/index.ts'
import { clues, cluesReach } from '../../src/tasks/clues.ts'
import { carriesTrial, insight, insightReach } from '../../src/tasks/insight.ts'
import { carriesPart, partsOf } from '../../src/tasks/parts.ts'
import type { Problem, Task } from '../../src/tasks/types.ts'
import { wordProblems } from '../../src/tasks/word-problems.ts'

export interface Figures {
  world: string
  board: 'own' | 'shared'
  problems: number
  passAt1: number
  ci95: readonly [number, number]
  passAt4: number
  counts: ReaderCounts
  /** Notes that carry their writer's part, or a trial that can be judged; null where notes have no such thing. */
  carried: number | null
  /** What is known by construction of the most that this board allows; null where nothing is. */
  reach: number | null
}

const { board: limits, sampling } = smallPolicySettings
const { copies } = limits

interface World {
  name: string
  task: Task
  carries: ((note: string, problem: Problem, seat: number) => boolean) | null
  reach: { own: number; shared: number } | null
}

const twoParts = { parts: 2, overlap: false, most: 20 }
const worlds: readonly World[] = [
  {
    name: 'word-problems',
    task: wordProblems({ train: 0, holdout: 480 }),
    carries: null,
    reach: null,
  },
  {
    name: 'clues',
    task: clues({ train: 0, holdout: 240, ...twoParts }),
    carries: (note, problem, seat) =>
      partsOf(problem, seat, copies).every((part) => carriesPart(note, part) !== false),
    reach: { own: cluesReach(twoParts, [0]), shared: cluesReach(twoParts, [0, 1]) },
  },
  {
    name: 'insight',
    task: insight({ train: 0, holdout: 240 }),
    carries: (note) => carriesTrial(note),
    reach: { own: insightReach({ range: 6 }, 1), shared: insightReach({ range: 6 }, copies) },
  },
]

/** The defaults of each world, under both boards. */
export async function measure(folder: string): Promise<Figures[]> {
  const engine = await openOnnxEngine({ model: folder })
  try {
    const policy = await engine.createPolicy()
    const figures: Figures[] = []
    for (const { name, task, carries, reach } of worlds) {
      const { holdout } = await task.load()
      for (const reads of [own, shared]) {
        const protocol = resolveProtocol(boardOf({ reads }), limits)
        const { played } = await playPolicy({ ...engine, policy }, holdout, {
          protocol,
          sampling: protocol.rounds.map(({ maxTokens }) => ({ maxTokens, ...sampling.evaluation })),
          grader: mathGrader,
          seed: ['measure', name],
        })
        const boards = played.map(({ episode }) => episode)
        const { passAt1, passAtK } = passAt(boards.map((episode) => finalScores(episode, 'each')))
        const carried =
          carries &&
          boards.flatMap(({ rounds: [notes] }, i) =>
            notes.map(({ text, seat }) => carries(text, holdout[i], seat)),
          )
        const board = reads === own ? 'own' : 'shared'
        figures.push({
          world: name,
          board,
          problems: boards.length,
          passAt1: passAt1.value,
          ci95: passAt1.ci95,
          passAt4: passAtK.value,
          counts: countEpisodes(boards),
          carried: carried && carried.filter(Boolean).length / carried.length,
          reach: reach?.[board] ?? null,
        })
      }
    }
    return figures
  } finally {
    await engine.close()
  }
}
