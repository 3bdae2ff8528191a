/** A record and lines of its jobs for tests: as small as the schemas allow, with every kind of field. */
import type { JobLog } from '../job-log.ts'
import type { Results } from '../results.ts'
import { kind, type MetricsLine, type RolloutLine, type RunRecord, schemaVersion } from '../schema.ts'

type ArmRecord = RunRecord['identity']['arms'][string]

export function sampleArm(changes: Partial<ArmRecord> = {}): ArmRecord {
  const sampling = { temperature: 1, topP: 1 }
  return {
    protocol: {
      name: 'board',
      seats: [
        { name: 'seat 1', policy: 'policy' },
        { name: 'seat 2', policy: 'policy' },
      ],
      rounds: [
        {
          name: 'note',
          speakers: [0, 1],
          sees: null,
          sights: [[], []],
          prompt: 'note',
          maxTokens: 8,
          sampling: { train: {}, evaluation: {} },
        },
      ],
      final: 'each',
    },
    credit: { name: 'own answer' },
    train: { steps: 3, problemsPerStep: 2, boards: 1 },
    sampling: { trained: sampling, context: sampling },
    policies: { policy: { model: 'tiny', sha256: 'a'.repeat(64), adapter: null, trained: true } },
    ...changes,
  }
}

/** An experiment of two arms that differ in their training, with four held-out problems. */
export function sampleRecord(changes: Partial<RunRecord> = {}): RunRecord {
  return {
    kind,
    schemaVersion,
    identity: {
      shared: {
        task: { name: 'sums' },
        data: { train: 6, holdout: 4, dropped: 3, sha256: 'b'.repeat(64) },
        evaluation: {
          baseRuns: 2,
          problemsAtOnce: 2,
          sampling: { temperature: 0.7, topP: 1 },
          readTokens: null,
        },
        template: {},
        grader: { name: 'math', version: '1' },
        engine: { name: 'onnx' },
        versions: { engine: '1' },
      },
      arms: {
        alone: sampleArm(),
        board: sampleArm({ train: { steps: 3, problemsPerStep: 2, boards: 2 } }),
      },
    },
    arms: ['alone', 'board'],
    baseline: 'alone',
    contrasts: [{ arm: 'board', against: 'alone' }],
    seeds: [17, 23],
    model: 'tiny',
    versions: { 'message-board': '1' },
    machine: { cores: 2 },
    ...changes,
  }
}

/** Ids of its held-out problems. */
export const sampleHoldout = ['h1', 'h2', 'h3', 'h4']

export function sampleMetrics(step: number): MetricsLine {
  return {
    step,
    reward: 0.5,
    informative: 1,
    noteAcc: null,
    loss: 0.25 / step,
    gradNorm: 1.5,
    learningRate: 0.001,
    clippedShare: 0,
    logprobDrift: 0.01,
    replyChars: 12.5,
    repliesCut: 0,
    sampledTokens: 40 + step,
    scoredTokens: 20,
    trainedTokens: 30,
    effective: null,
    rounds: [{ name: 'note', right: 0.5, chars: 12.5, tokens: 8, cut: 0, credit: null }],
    seconds: { rounds: [0.5], credit: 0, forwardBackward: 0.25, optimStep: 0.25 },
  }
}

/** One board; a `step` makes it one of training. */
export function sampleRollout(id: string, step?: number): RolloutLine {
  const post = (seat: number) => ({
    seat,
    reads: [] as [number, number][],
    text: `It is ${seat}, as Ü says.`,
    tokens: 8,
    answer: `${seat}`,
    correct: seat === 1,
    cut: false,
  })
  return {
    phase: step === undefined ? 'evaluation' : 'train',
    ...(step !== undefined && { step }),
    problem: { id, question: `What is ${id}?`, gold: '1' },
    rounds: [[post(0), post(1)]],
    ...(step !== undefined && { credit: [[0, 1]] }),
  }
}

/** A checkpoint's writer whose files depend on the step: an adapter, and the optimiser's state beside it. */
export function sampleSave(step: number, write: (path: string, text: string) => Promise<void>) {
  return async (folder: string) => {
    await write(`${folder}/adapter.safetensors`, `adapter ${step}\n`.repeat(20))
    await write(`${folder}/optimizer.json`, `{"step":${step}}\n`)
  }
}

/** Takes what is left of a job's `steps` steps, and evaluates what is left of the held-out problems. */
export async function finishSample(
  log: JobLog,
  steps: number,
  write: (path: string, text: string) => Promise<void>,
): Promise<void> {
  while (!log.progress().trained) {
    const step = log.progress().steps + 1
    const rollouts = ['t1', 't2'].map((id) => sampleRollout(id, step))
    const kept = { metrics: sampleMetrics(step), rollouts, seconds: 1, trained: step === steps }
    await log.step(kept, sampleSave(step, write))
  }
  while (log.progress().evaluated < sampleHoldout.length) {
    const { evaluated } = log.progress()
    const ids = sampleHoldout.slice(evaluated, evaluated + 2)
    await log.evaluated(
      ids.map((id) => sampleRollout(id)),
      0.5,
    )
  }
}

/** Results of a run that has found nothing yet. */
export function sampleResults(): Results {
  return {
    schemaVersion,
    model: { name: 'tiny', sha256: 'a'.repeat(64) },
    task: { name: 'sums', train: 6, holdout: 4 },
    config: {},
    seeds: [17, 23],
    baseline: 'alone',
    arms: { alone: null, board: null },
    bases: [],
    contrasts: [],
    training: [],
    sequential: null,
    regrades: [],
    checks: {
      noise: null,
      decontamination: { dropped: 3 },
      length: [],
      cut: [],
      hackScan: [],
      overOptimisation: { proxy: null, overOptimised: false, why: 'no proxy' },
    },
    trainTrace: {},
    failed: [],
    versions: {},
    timing: { finishedAt: '2026-01-01T00:00:00.000Z', minutes: 1, jobs: {} },
  }
}
