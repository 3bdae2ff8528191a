/** The policy's figures before any RL: the experiment's own rounds and verifier, on held-out problems. */
import { countEpisodes, finalScores, type ReaderCounts } from '../../src/board/counts.ts'
import { playPolicy } from '../../src/board/policy-writer.ts'
import { resolveProtocol } from '../../src/board/protocol.ts'
import { board } from '../../src/board/protocols.ts'
import { own, shared } from '../../src/board/sights.ts'
import { openOnnxEngine } from '../../src/engine/onnx/index.ts'
import { mathGrader } from '../../src/grade/grader.ts'
import { passAt } from '../../src/stats/index.ts'
import { wordProblems } from '../../src/tasks/word-problems.ts'

export interface Figures {
  level: number
  board: 'own' | 'shared'
  problems: number
  passAt1: number
  ci95: readonly [number, number]
  passAt4: number
  counts: ReaderCounts
}

export interface Limits {
  noteTokens: number
  replyTokens: number
}

const sampling = { temperature: 0.9, topP: 0.95 }

/** Level 2, the default, under both boards, and level 1 with the own note. */
export async function measure(folder: string, limits: Limits): Promise<Figures[]> {
  const engine = await openOnnxEngine({ model: folder })
  try {
    const policy = await engine.createPolicy()
    const figures: Figures[] = []
    for (const { level, reads } of [
      { level: 2, reads: own },
      { level: 2, reads: shared },
      { level: 1, reads: own },
    ]) {
      const { holdout } = await wordProblems({ train: 0, holdout: level === 1 ? 240 : 480, level }).load()
      const protocol = resolveProtocol(board({ reads }), { copies: 4, ...limits })
      const { played } = await playPolicy({ ...engine, policy }, holdout, {
        protocol,
        sampling: protocol.rounds.map(({ maxTokens }) => ({ maxTokens, ...sampling })),
        grader: mathGrader,
        seed: ['measure', level],
      })
      const boards = played.map(({ episode }) => episode)
      const { passAt1, passAtK } = passAt(boards.map((episode) => finalScores(episode, 'each')))
      figures.push({
        level,
        board: reads === own ? 'own' : 'shared',
        problems: boards.length,
        passAt1: passAt1.value,
        ci95: passAt1.ci95,
        passAt4: passAtK.value,
        counts: countEpisodes(boards),
      })
    }
    return figures
  } finally {
    await engine.close()
  }
}
