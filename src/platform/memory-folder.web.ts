/** Files in a thread's memory, by the part of OPFS's interface that the project uses. */
import { concat } from '../bytes.ts'
import type { Folder, InPlace, Stored } from './folder.web.ts'

const refusal = (name: string) => new DOMException(name, name)

/** A new folder without files. */
export function memoryFolder(): Folder {
  const inside = new Map<string, Folder | Stored>()
  /** The entry of that name and kind, made where it may be. */
  const entry = async <E extends Folder | Stored>(
    name: string,
    kind: E['kind'],
    make: (() => E) | undefined,
  ): Promise<E> => {
    const found = inside.get(name)
    if (found === undefined) {
      if (make === undefined) throw refusal('NotFoundError')
      const made = make()
      inside.set(name, made)
      return made
    }
    if (found.kind !== kind) throw refusal('TypeMismatchError')
    return found as E
  }
  const folder: Folder & { take(name: string, file: Stored): void } = {
    kind: 'directory',
    getDirectoryHandle: (name, { create = false } = {}) =>
      entry<Folder>(name, 'directory', create ? memoryFolder : undefined),
    getFileHandle: (name, { create = false } = {}) =>
      entry<Stored>(name, 'file', create ? () => memoryFile(folder, name) : undefined),
    async removeEntry(name, { recursive = false } = {}) {
      const found = inside.get(name)
      if (found === undefined) throw refusal('NotFoundError')
      if (found.kind === 'directory' && !recursive) {
        for await (const _ of found.entries()) throw refusal('InvalidModificationError')
      }
      inside.delete(name)
    },
    async *entries() {
      yield* [...inside]
    },
    take(name, file) {
      if (inside.get(name)?.kind === 'directory') throw refusal('TypeMismatchError')
      inside.set(name, file)
    },
  }
  return folder
}

function memoryFile(folder: Folder, name: string): Stored {
  let place = { folder, name }
  let bytes = new Uint8Array()
  let lastModified = Date.now()
  const changed = (next: Uint8Array<ArrayBuffer>) => {
    bytes = next
    lastModified = Date.now()
  }
  const inPlace: InPlace = {
    write(added, { at }) {
      const end = Math.max(bytes.length, at + added.length)
      const next = concat([bytes, new Uint8Array(end - bytes.length)])
      next.set(added, at)
      changed(next)
      return added.length
    },
    truncate: (length) =>
      changed(concat([bytes.subarray(0, length), new Uint8Array(Math.max(0, length - bytes.length))])),
    flush() {},
    close() {},
  }
  const file: Stored = {
    kind: 'file',
    getFile: async () => new File([bytes], place.name, { lastModified }),
    createSyncAccessHandle: async () => inPlace,
    async move(to, newName) {
      ;(to as Folder & { take(name: string, file: Stored): void }).take(newName, file)
      await place.folder.removeEntry(place.name)
      place = { folder: to, name: newName }
    },
  }
  return file
}
