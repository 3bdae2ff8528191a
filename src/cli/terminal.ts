/** The one door through which text reaches the terminal: whatever it holds, it is text there. Writes to the streams only. */
import { printable, printableLine } from '../printable.ts'

/** Results, which may be read by another program. */
export function print(text: string): void {
  process.stdout.write(printable(text))
}

/** What a person should know beside them, in lines. */
export function tell(text: string): void {
  process.stderr.write(printable(text))
}

/** A notice or an error: one line. */
export const say = (text: string): void => tell(`${printableLine(text)}\n`)

/** A value as JSON. */
export const printJson = (value: unknown): void => print(`${JSON.stringify(value, null, 2)}\n`)
