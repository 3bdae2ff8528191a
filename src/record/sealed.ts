/**
 * JSON that carries a checksum of itself, and of the name that it belongs to: a flipped bit in a number that no schema
 * refuses, or a file that was put in another's place, is known for what it is. Pure.
 */
import { createHash } from 'node:crypto'
import { jsonText } from '../files.ts'

/** The SHA-256 of a name and of a value as JSON. */
function sealOf(name: string, value: object): string {
  return createHash('sha256')
    .update(`${name}\n${jsonText(value)}`)
    .digest('hex')
}

/** A value as a file holds it: its fields, and a last one, `seal`. */
export function sealedText(name: string, value: object): string {
  return jsonText({ ...value, seal: sealOf(name, value) })
}

/** Takes the seal from a value that was read; `whole`: it is the one that was written under that name. */
export function unseal(name: string, read: object): { value: object; whole: boolean } {
  const { seal, ...value } = read as { seal?: unknown }
  return { value, whole: seal === sealOf(name, value) }
}
