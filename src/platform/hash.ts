/** SHA-256 of what comes in parts, by Node's own; in a browser hash.web.ts. */
import { createHash, type Hash as NodeHash } from 'node:crypto'

export interface Hash {
  /** Takes more; text as UTF-8. Returns itself. */
  update(data: string | Uint8Array): Hash
  /** Another that goes on from here. */
  copy(): Hash
  /** Of all that was taken; it takes no more. */
  digest(): Uint8Array
}

export const sha256 = (): Hash => wrapped(createHash('sha256'))

function wrapped(hash: NodeHash): Hash {
  const self: Hash = {
    update(data) {
      hash.update(data)
      return self
    },
    copy: () => wrapped(hash.copy()),
    digest: () => hash.digest(),
  }
  return self
}
