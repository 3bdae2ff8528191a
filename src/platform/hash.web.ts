/** SHA-256 of what comes in parts: the browser's own takes a whole at once, and answers later. */
import { sha256 as noble } from '@noble/hashes/sha2.js'
import { utf8 } from '../bytes.ts'
import type { Hash } from './hash.ts'

type NobleHash = ReturnType<typeof noble.create>

export const sha256 = (): Hash => wrapped(noble.create())

function wrapped(hash: NobleHash): Hash {
  const self: Hash = {
    update(data) {
      hash.update(typeof data === 'string' ? utf8(data) : data)
      return self
    },
    copy: () => wrapped(hash.clone()),
    digest: () => hash.digest(),
  }
  return self
}
