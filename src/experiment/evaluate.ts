/** Plays the rounds without training: one model, one board, counted. Asks an engine; writes nothing. */
import { join } from 'node:path'
import { z } from 'zod'
import { whatReadersDid } from '../board/readers.ts'
import { playRounds } from '../board/rounds.ts'
import type { Reads } from '../board/types.ts'
import { readJsonFile } from '../files.ts'
import { type LocateOptions, locateModel } from '../hub/model.ts'
import { passAt } from '../stats/index.ts'
import type { Experiment } from './config.ts'
import { fingerprint, openEngine, versions } from './engine.ts'
import { roundsOf } from './job.ts'
import { checkPrompts } from './preflight.ts'

export interface EvaluationOptions {
  reads: Reads
  /** A folder with a trained adapter in PEFT's layout; the base itself when left out. */
  adapter?: string
  seed: number
  /** Told after each portion of problems. */
  onProblems?: (done: number, of: number) => void
  onDownload?: LocateOptions['onDownload']
  onNotice?: LocateOptions['onNotice']
}

/** pass@1, pass@k and what readers did, on the experiment's held-out problems. */
export async function evaluateModel(experiment: Experiment, options: EvaluationOptions) {
  const { evaluation } = experiment
  const split = await experiment.task.load()
  const located = await locateModel(experiment.model, {
    onDownload: options.onDownload,
    onNotice: options.onNotice,
  })
  const sha256 = await fingerprint(located.folder)
  const engine = await openEngine(experiment, located)
  try {
    checkPrompts(experiment, engine, { ...split, train: [] }, [options.reads])
    const lora = options.adapter ? await adapterShape(options.adapter) : undefined
    const policy = await engine.createPolicy({ lora: lora && { ...lora, seed: 0 } })
    if (options.adapter) await policy.load(options.adapter)
    const played = []
    for (let done = 0; done < split.holdout.length; ) {
      const problems = split.holdout.slice(done, done + evaluation.problemsAtOnce)
      const rounds = await playRounds(policy, engine.tokenizer, problems, {
        ...roundsOf({ engine, experiment, onEvent: () => {} }, options.reads, 'evaluation'),
        seed: ['evaluation', options.seed],
      })
      played.push(...rounds.played)
      done += problems.length
      options.onProblems?.(done, split.holdout.length)
    }
    const boards = played.map((one) => one.board)
    const { problems, k, passAt1, passAtK } = passAt(
      boards.map(({ replies }) => replies.map((reply) => reply.correct)),
    )
    return {
      schemaVersion: 1,
      model: { name: experiment.model, sha256 },
      adapter: options.adapter ?? null,
      task: { name: experiment.task.name, ...experiment.task.config },
      reads: options.reads.name,
      seed: options.seed,
      problems,
      k,
      passAt1: passAt1.value,
      ci95: passAt1.ci95,
      passAtK: passAtK.value,
      board: whatReadersDid(boards),
      versions: versions(experiment),
    }
  } finally {
    await engine.close()
  }
}

/** Rank and alpha of an adapter, which a policy must be made with before the adapter can be loaded. */
function adapterShape(folder: string): Promise<{ rank: number; alpha: number }> {
  const schema = z
    .looseObject({ r: z.number().int().positive(), lora_alpha: z.number().positive() })
    .transform(({ r, lora_alpha }) => ({ rank: r, alpha: lora_alpha }))
  return readJsonFile(join(folder, 'adapter_config.json'), schema)
}
