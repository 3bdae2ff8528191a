/**
 * What `run` is asked to run: an experiment with flags over it, or a run folder, which says by itself what it is. Reads the
 * file or the folder; writes nothing.
 */
import { existsSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { basename, join } from 'node:path'
import { isHost } from '../engine/onnx/devices.ts'
import { UserError } from '../errors.ts'
import { type Experiment, overrideExperiment } from '../experiment/config.ts'
import { builtInModel } from '../platform/machine.ts'
import { readRecord } from '../record/folder.ts'
import type { RunCommand, RunRecord } from '../record/schema.ts'
import { experimentOf } from './experiment-file.ts'
import { type ExperimentFlags, type KeptFlags, keptFlags, type RunFlags, withFlags } from './flags.ts'
import { shardNumber } from './options.ts'

export interface Asked {
  experiment: Experiment
  /** For the folder's record. */
  command: RunCommand
  /** Those given, and of a run folder what its record says of the rest. */
  flags: RunFlags & { out: string }
}

/** @throws UserError for a file, folder or flag that cannot be used. */
export async function askedOf(what: string | undefined, given: RunFlags): Promise<Asked> {
  if (what !== undefined && (await isFolder(what))) return ofFolder(what, given)
  const asked = await experimentBy({ file: what ?? null, flags: [keptFlags(given)] })
  const flags = { ...withCores(given, asked), out: given.out ?? join('runs', nameOf(what)) }
  const command: RunCommand = { file: what ?? null, flags: [keptFlags(flags)] }
  return { experiment: await experimentBy(command), command, flags }
}

/** The experiment of a command line. */
export async function experimentBy({ file, flags }: RunCommand): Promise<Experiment> {
  const experiment = await experimentOf(file ?? undefined)
  return flags.map(keptFlags).reduce(withFlags, experiment)
}

/** The experiment that made a run, for what looks at it later: as a file has it, or as the folder's record says. */
export async function experimentOfRun(
  folder: string,
  file: string | undefined,
  flags: ExperimentFlags,
): Promise<Experiment> {
  const { command } = file === undefined ? await readRecord(folder) : {}
  return command === undefined
    ? withFlags(await experimentOf(file), flags)
    : (await ofFolder(folder, flags)).experiment
}

export const isFolder = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )

const nameOf = (file: string | undefined) => (file ? basename(file).replace(/\.[cm]?[jt]s$/, '') : 'default')

/**
 * A run goes on as its record has it, with what is given over that: more seeds, another arm. With another --out it is a run
 * like it in another folder.
 */
async function ofFolder(folder: string, given: RunFlags): Promise<Asked> {
  const record = await readRecord(folder)
  const { command, looks } = record
  if (command === undefined) {
    throw new UserError(
      `${folder} does not say which command made it (a program did, or an earlier version): give that command once more, with ` +
        `--out ${folder}.`,
    )
  }
  const { file } = command
  if (file !== null && !existsSync(file)) {
    throw new UserError(
      `${folder} was made by ${file}, which is not here: give the command where it was first given, or name the file and ` +
        `--out ${folder}.`,
    )
  }
  const layers = command.flags.map(keptFlags)
  const jobs = layers.findLast((layer) => layer.jobs !== undefined)?.jobs
  const recorded: KeptFlags = {
    seeds: looks?.first ?? record.seeds,
    // How work is split decides the last digits: other cores are no reason to split it otherwise.
    ...threadsOf(record),
    ...(jobs !== undefined && { jobs }),
  }
  // What the record says again need not be kept twice.
  const kept = layers.filter((layer, i) => i === 0 || Object.keys(layer).some((key) => !(key in recorded)))
  const before = await experimentBy({ file, flags: [...kept, recorded] })
  const { baseline, contrasts, arms, shard } = record
  const more = keptFlags(given)
  return {
    experiment: withFlags(overrideExperiment(before, { baseline, contrasts }), more),
    command: { file, flags: [...kept, recorded, ...(Object.keys(more).length > 0 ? [more] : [])] },
    flags: {
      ...(looks && { untilResolved: true, maxSeeds: looks.maxSeeds }),
      ...(shard !== undefined && given.out === undefined && { shard: shardNumber(shard) }),
      ...(arms.length < Object.keys(before.arms).length && { arm: arms }),
      jobs,
      out: folder,
      ...given,
    },
  }
}

function threadsOf({ identity: { shared } }: RunRecord): Pick<KeptFlags, 'threads'> {
  const { name, threads } = shared.engine
  return name === 'onnx' && typeof threads === 'number' ? { threads } : {}
}

/**
 * How the cores are shared out on the CPU. Jobs of the built-in policy run side by side unless told, since a model so small
 * leaves cores idle when they share its work; of jobs at a time each gets its share of the cores, unless the flags or the
 * experiment say how many threads it gets.
 */
function withCores(flags: RunFlags, { model, engine, choices, arms, seeds }: Experiment): RunFlags {
  if (engine.name !== 'onnx' || engine.device === 'auto' || !isHost(engine.device)) return flags
  const cores = availableParallelism()
  const threads = flags.threads ?? choices.engine?.threads
  const trained = (flags.arm ?? Object.keys(arms)).length * seeds.length
  const begun = Math.ceil(trained / (flags.shard?.n ?? 1))
  const beside = Math.max(1, Math.floor(cores / (threads ?? 1)))
  const jobs = flags.jobs ?? (model === builtInModel ? Math.min(beside, begun) : undefined)
  if (jobs === undefined || jobs === 1 || threads !== undefined) return { ...flags, jobs }
  return { ...flags, jobs, threads: Math.max(1, Math.floor(cores / jobs)) }
}
