/**
 * Values that carry a checksum of themselves, and of the name that they belong to: a flipped bit in a number that no
 * schema refuses, or a file that was put in another's place, is known for what it is. Pure.
 */
import type { z } from 'zod'
import { hex } from './bytes.ts'
import { firstIssue } from './files.ts'
import { sha256 } from './platform/hash.ts'

/** The SHA-256 of a name and of a value as JSON. */
function sealOf(name: string, value: object): string {
  return hex(
    sha256()
      .update(`${name}\n${JSON.stringify(value)}`)
      .digest(),
  )
}

/** A value of plain data with a last field, `seal`. */
export function sealed<T extends object>(name: string, value: T): T & { seal: string } {
  return { ...value, seal: sealOf(name, value) }
}

/** The value of a sealed text that fits a schema, or what is wrong with it, in words that follow "is damaged (". */
export function parseSealed<T>(
  name: string,
  text: string,
  schema: z.ZodType<T>,
): { value: T; fault?: undefined } | { fault: string } {
  let read: unknown
  try {
    read = JSON.parse(text)
  } catch {
    return { fault: 'it is not JSON' }
  }
  if (typeof read !== 'object' || read === null) return { fault: 'it is no record' }
  const { seal, ...value } = read as { seal?: unknown }
  const parsed = schema.safeParse(value)
  if (!parsed.success) return { fault: firstIssue(parsed.error) }
  if (seal !== sealOf(name, value))
    return { fault: 'its checksum is another: it was changed, or belongs elsewhere' }
  return { value: parsed.data }
}
