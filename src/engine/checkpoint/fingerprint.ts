/**
 * Fingerprints of what decides a model's numbers: of every file that loading it reads, all bytes. Reads these files.
 *
 * A hash of a part, or one remembered by a file's size and times, would take a file that was changed in place for what it
 * was. Whoever asks is about to load the files anyway: hashing runs at the speed of a fast disk, and leaves them in memory.
 */
import { hex } from '../../bytes.ts'
import { UserError } from '../../errors.ts'
import { codeOf } from '../../files.ts'
import { open, stat } from '../../platform/files.ts'
import { type Hash, sha256 } from '../../platform/hash.ts'
import { join } from '../../platform/path.ts'
import { tokenizerFiles } from '../../tokens/file-names.ts'
import { adapterFiles } from './adapter.ts'
import { weightFiles } from './safetensors.ts'

/**
 * The fingerprint of a checkpoint folder: the names, sizes and contents of its files. Where the folder lies is no part of
 * it. Throws UserError for a folder that is not there or holds no checkpoint.
 */
export async function fingerprint(folder: string): Promise<string> {
  const settings = await settingsOf(folder)
  return hashFiles(folder, [...settings, ...(await weightFiles(folder))])
}

/** The same for a folder of which the tokenizer alone is read. */
export async function tokenizerFingerprint(folder: string): Promise<string> {
  return hashFiles(folder, await settingsOf(folder))
}

/** The same for an adapter's folder in PEFT's layout; its optimiser's state is no part of it. */
export function adapterFingerprint(folder: string): Promise<string> {
  return hashFiles(folder, adapterFiles)
}

async function settingsOf(folder: string): Promise<string[]> {
  const there = await Promise.all(
    tokenizerFiles.map((name) =>
      stat(join(folder, name)).then(
        () => [name],
        () => [],
      ),
    ),
  )
  const names: string[] = there.flat()
  if (!names.includes('config.json')) {
    throw new UserError(
      `There is no checkpoint in ${folder}: give --model a folder in Hugging Face's layout (config.json, ` +
        'tokenizer.json, model.safetensors).',
    )
  }
  return names
}

async function hashFiles(folder: string, names: readonly string[]): Promise<string> {
  const hash = sha256()
  for (const name of names.toSorted()) await addFile(hash, folder, name)
  return hex(hash.digest())
}

async function addFile(hash: Hash, folder: string, name: string): Promise<void> {
  const path = join(folder, name)
  try {
    const found = await stat(path)
    if (!found.isFile()) throw new UserError(`${path} is no file. Put the model's own there.`)
    hash.update(`${name} ${found.size}\n`)
    const file = await open(path, 'r')
    try {
      const chunk = new Uint8Array(1 << 20)
      for (;;) {
        const { bytesRead } = await file.read(chunk, 0, chunk.length, null)
        if (bytesRead === 0) break
        hash.update(chunk.subarray(0, bytesRead))
      }
    } finally {
      await file.close()
    }
  } catch (error) {
    const code = codeOf(error)
    if (code === undefined) throw error
    throw new UserError(`Cannot read ${path} (${code}). Check the path.`)
  }
}
