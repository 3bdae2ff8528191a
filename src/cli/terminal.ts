/**
 * The one door through which text reaches the terminal: whatever it holds, it is text there. Colour is added behind that,
 * and where the terminal has it alone. Writes to the streams only.
 */
import { WriteStream } from 'node:tty'
import { styleText } from 'node:util'
import { printable, printableLine } from '../printable.ts'
import { type Line, type Tone, wrapped } from '../report/layout.ts'

/** Results, to the letter: they may be read by another program. */
export function print(text: string): void {
  process.stdout.write(printable(text))
}

/** Results in colour, where the standard output shows it. */
export function printLines(lines: readonly Line[]): void {
  const coloured = hasColour(process.stdout)
  const piece = ({ text, tone }: Line[number]) =>
    tone && coloured ? styled(tone, printable(text)) : printable(text)
  process.stdout.write(lines.map((line) => `${line.map(piece).join('')}\n`).join(''))
}

/** Results as text, whose lines are broken between words where the terminal is narrower. */
export function printText(text: string): void {
  printLines(text.split('\n').flatMap((row) => wrapped([{ text: row }], lineWidth())))
}

/** This program's own text, such as its help, with the colours that it has already. */
export function printOwn(text: string): void {
  process.stdout.write(text)
}

/** What a person should know beside them, in lines. */
export function tell(text: string): void {
  process.stderr.write(printable(text))
}

/** A notice or an error: one line. */
export const say = (text: string): void => tell(`${printableLine(text)}\n`)

/** A value as JSON. */
export const printJson = (value: unknown): void => print(`${JSON.stringify(value, null, 2)}\n`)

/** Text wider than this is hard to read, however wide the terminal. */
const MOST = 120
const LEAST = 60

/** Characters of a line of results: the terminal's, within reason; where there is none, many. */
export const lineWidth = (): number => Math.min(MOST, Math.max(LEAST, process.stdout.columns ?? MOST))

/** A terminal that has colours and was not asked for none (NO_COLOR), or whatever was asked for them (FORCE_COLOR). */
export function hasColour(stream: { isTTY?: boolean }): boolean {
  const { FORCE_COLOR } = process.env
  if (FORCE_COLOR === undefined && stream.isTTY !== true) return false
  return WriteStream.prototype.getColorDepth(process.env) > 2
}

const styles: Record<Tone, Parameters<typeof styleText>[0]> = {
  moved: ['bold', 'green'],
  'moved the wrong way': ['bold', 'red'],
  flat: ['bold', 'cyan'],
  unresolved: ['bold', 'yellow'],
  warning: 'yellow',
  strong: 'bold',
  faint: 'dim',
}

/** Text as a terminal shows it in a tone. Whether it is to be coloured was decided: Node is not asked again. */
export const styled = (tone: Tone, text: string): string =>
  styleText(styles[tone], text, { validateStream: false })
