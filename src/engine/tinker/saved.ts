/**
 * What a policy on a Tinker API server leaves in a folder: the name of its checkpoint there, and the adapter where the
 * server lets it be had. Owns the checkpoints that are not needed any more. Touches that folder, and one server.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { UserError } from '../../errors.ts'
import { readJsonFile, writeJsonAtomic } from '../../files.ts'
import { openSafetensors } from '../checkpoint/safetensors.ts'
import type { LoraOptions } from '../contract.ts'
import { DamagedArchive, unpackAdapter } from './archive.ts'
import { type Client, isUncertain, Refused } from './client.ts'
import type { RemoteModel } from './remote.ts'
import { freshName } from './server.ts'
import { samplerSchema } from './wire.ts'

const savedName = 'tinker.json'
const savedSchema = z.object({
  schemaVersion: z.literal(1),
  /** The server that has the checkpoint. */
  url: z.string(),
  baseModel: z.string(),
  /** Adapter and optimiser on that server: tinker://.../weights/... */
  checkpoint: z.string(),
  lora: z.object({ rank: z.number(), alpha: z.number(), seed: z.number() }),
})
export type Saved = Omit<z.infer<typeof savedSchema>, 'schemaVersion'>

export async function writeSaved(folder: string, saved: Saved): Promise<void> {
  await mkdir(folder, { recursive: true })
  await writeJsonAtomic(join(folder, savedName), { schemaVersion: 1, ...saved })
}

/** @throws UserError for a folder that is of another model, or of another shape. */
export async function readSaved(folder: string, baseModel: string, lora: LoraOptions): Promise<Saved> {
  const file = join(folder, savedName)
  const saved = await readJsonFile(file, savedSchema)
  if (saved.baseModel !== baseModel || saved.lora.rank !== lora.rank || saved.lora.alpha !== lora.alpha) {
    throw new UserError(
      `${file} is of ${saved.baseModel} with rank ${saved.lora.rank} and alpha ${saved.lora.alpha}, not of ` +
        `${baseModel} with ${lora.rank} and ${lora.alpha}: load it into a policy like its own.`,
    )
  }
  return saved
}

/**
 * The adapter in PEFT's layout, where the server lets it be had. It is a copy for people, and the state itself is kept:
 * what goes wrong with the copy alone is a notice. False where the model is not to be trusted any more.
 */
export async function saveAdapter(client: Client, model: RemoteModel, folder: string): Promise<boolean> {
  const name = freshName('adapter')
  try {
    await model.work(
      'save_weights_for_sampler',
      { path: name, type: 'save_weights_for_sampler' },
      samplerSchema,
    )
    const path = `training_runs/${encodeURIComponent(model.id)}/checkpoints/${name}/archive`
    const archive = await client.download(path)
    if (archive && (await unpackAdapter(archive, folder))) await nameTargets(folder)
    return true
  } catch (error) {
    if (isUncertain(error) || error instanceof Refused) return false
    if (!(error instanceof DamagedArchive || error instanceof Unreadable)) throw error
    client.notice(`${error.message} ${folder} has no adapter; its state is kept.`)
    return true
  }
}

/** Files of an adapter that cannot be read. */
class Unreadable extends UserError {}

const settingsSchema = z.looseObject({ target_modules: z.unknown().optional() })

/**
 * Names the projections that an adapter's file holds, where its settings name none: SkyRL trains all and does not say so, and
 * PEFT would take the file for one of its default projections and drop the rest.
 */
export async function nameTargets(folder: string): Promise<void> {
  const path = join(folder, 'adapter_config.json')
  try {
    const settings = await readJsonFile(path, settingsSchema)
    if (settings.target_modules !== undefined && settings.target_modules !== null) return
    const file = await openSafetensors(join(folder, 'adapter_model.safetensors'))
    await file.close()
    const projections = file.names.flatMap((name) => /\.(\w+)\.lora_[AB]\.weight$/.exec(name)?.[1] ?? [])
    await writeJsonAtomic(path, { ...settings, target_modules: [...new Set(projections)].sort() })
  } catch (error) {
    throw error instanceof UserError ? new Unreadable(error.message) : error
  }
}

export interface Retired {
  /** A newer checkpoint has taken the place of this one. */
  add(checkpoint: string): void
  /** Removes, on their server, those that no folder names. */
  remove(client: Client): Promise<void>
}

/** Checkpoints that nobody needs once the newest is on record. */
export function openRetired(): Retired {
  /** The oldest first. */
  let checkpoints: string[] = []
  let removes = true
  return {
    add(checkpoint) {
      checkpoints.push(checkpoint)
    },
    async remove(client) {
      // The one before this may be the last that a run's files name until they name this one.
      while (removes && checkpoints.length > 1) {
        const [first, ...rest] = checkpoints
        checkpoints = rest
        if (!URL.canParse(first)) continue
        const { hostname, pathname } = new URL(first)
        removes = await client.remove(`training_runs/${hostname}/checkpoints${pathname}`).catch(() => false)
      }
    },
  }
}
