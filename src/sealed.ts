/**
 * Values that carry a checksum of themselves, and of the name that they belong to: a flipped bit in a number that no
 * schema refuses, or a file that was put in another's place, is known for what it is. Pure.
 */
import { createHash } from 'node:crypto'

/** The SHA-256 of a name and of a value as JSON. */
function sealOf(name: string, value: object): string {
  return createHash('sha256')
    .update(`${name}\n${JSON.stringify(value)}`)
    .digest('hex')
}

/** A value of plain data with a last field, `seal`. */
export function sealed<T extends object>(name: string, value: T): T & { seal: string } {
  return { ...value, seal: sealOf(name, value) }
}

/** Takes the seal from a value that was read; `whole`: it is the one that was sealed under that name. */
export function unsealed(name: string, read: object): { value: object; whole: boolean } {
  const { seal, ...value } = read as { seal?: unknown }
  return { value, whole: seal === sealOf(name, value) }
}
