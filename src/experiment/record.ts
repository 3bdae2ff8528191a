/** An experiment as its run folder records it: all that decides what its jobs compute, as plain data. */

import { protocolRecord } from '../board/protocol.ts'
import { adapterFingerprint } from '../engine/checkpoint/fingerprint.ts'
import { builtInModel, machine } from '../platform/machine.ts'
import { join } from '../platform/path.ts'
import {
  type ArmRecord,
  type History,
  kind,
  type RunRecord,
  type SharedRecord,
  schemaVersion,
} from '../record/schema.ts'
import type { Problem, Split } from '../tasks/types.ts'
import type { Arm } from './arms.ts'
import type { Experiment } from './config.ts'
import { decidingVersions, type FoundModels, sha256, versions } from './engine.ts'

/** The whole of experiment.json. Seeds are no part of the identity: adding one pays for that one alone. */
export async function recordOf(experiment: Experiment, found: FoundModels, split: Split): Promise<RunRecord> {
  const { arms, baseline, contrasts, seeds, model } = experiment
  const armRecords = await Promise.all(
    Object.entries(arms).map(async ([name, arm]) => [name, await armRecord(arm, found)] as const),
  )
  return {
    kind,
    schemaVersion,
    identity: { shared: sharedRecord(experiment, split), arms: Object.fromEntries(armRecords) },
    arms: Object.keys(arms),
    baseline,
    contrasts: contrasts.map((pair) => ({ ...pair })),
    seeds,
    model: modelName(model),
    versions: versions(experiment),
    machine: machine(),
  }
}

/** The history with one more reading of the verdicts at the plain level. */
export function noted({ history = {}, seeds }: RunRecord): History {
  const { read = [] } = history
  const known = read.some((each) => each.join() === seeds.join())
  return known ? history : { ...history, read: [...read, [...seeds]] }
}

/** A model as results name it. */
export const modelName = (model: string): string => (model === builtInModel ? 'small (built-in)' : model)

function sharedRecord(experiment: Experiment, { train, holdout, dropped }: Split): SharedRecord {
  const { task, grader, engine, evaluation, board, template } = experiment
  return {
    task: { name: task.name, ...task.config },
    data: {
      train: train.length,
      holdout: holdout.length,
      dropped,
      sha256: sha256(JSON.stringify([train, holdout].map((rows) => rows.map(problemKey)))),
    },
    evaluation: { ...evaluation, readTokens: board.readTokens },
    template,
    grader: { name: grader.name, version: grader.version },
    // Where the servers are decides nothing: a run may go on at another address.
    engine: engine.name === 'tinker' ? { name: engine.name } : { ...engine },
    versions: decidingVersions(experiment),
  }
}

async function armRecord(
  { protocol, credit, train, sampling, policies }: Arm,
  found: FoundModels,
): Promise<ArmRecord> {
  const named = await Promise.all(
    Object.entries(policies).map(async ([name, { model, adapter, trained }]) => {
      const start = adapter === null ? null : await adapterFingerprint(adapter)
      return [
        name,
        { model: modelName(model), sha256: found.get(model)!.sha256, adapter: start, trained },
      ] as const
    }),
  )
  return {
    // What JSON keeps of it, so that a record read back equals one just made.
    protocol: JSON.parse(JSON.stringify(protocolRecord(protocol))),
    credit: { name: credit.name, ...credit.config },
    train: { ...train },
    sampling,
    policies: Object.fromEntries(named),
  }
}

const problemKey = ({ id, question, gold, parts }: Problem) => [id, question, gold, ...(parts ? [parts] : [])]

/** Where an arm's adapter of a job lies: that of the policy named so, in the layout of the engine's `save`. */
export function adapterFolder(
  checkpoint: string,
  policy: string,
  { policies }: Pick<Arm, 'policies'>,
): string {
  return Object.keys(policies).length === 1 ? checkpoint : join(checkpoint, policy)
}
