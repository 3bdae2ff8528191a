/**
 * Who reads whom, as a visitor draws it: for each reader the notes that it is shown, ascending. What is drawn like a
 * ready sight is that sight; anything else is a sight of its own, named by its arrows. Pure.
 */
import { named, type Sight, sights } from '../board/sights.ts'
import { random } from '../random.ts'

/** Seats of a board here: readers and writers are the same four. */
export const SEATS = 4

/** By reader, from 0: the seats whose notes it reads. */
export type Wiring = readonly (readonly number[])[]

const everyone = Array.from({ length: SEATS }, (_, seat) => seat)

/** What a ready sight shows to each reader. */
export function wiringOf(sight: Sight): Wiring {
  const view = { round: 1, before: everyone, draw: random('wiring') }
  return everyone.map((seat) => [...(sight(seat, SEATS, view) as number[])].sort((a, b) => a - b))
}

/** The ready sights by name. */
export const presets: Readonly<Record<string, Wiring>> = Object.fromEntries(
  Object.entries(sights).map(([name, sight]) => [name, wiringOf(sight)]),
)

export const isAlike = (a: Wiring, b: Wiring): boolean => JSON.stringify(a) === JSON.stringify(b)

/** The ready sight that is drawn so; undefined for a drawing of its own. */
export const presetOf = (wiring: Wiring): string | undefined =>
  Object.keys(presets).find((name) => isAlike(presets[name], wiring))

/** With the arrow from a note to a reader where there was none, and without it where there was one. */
export function toggled(wiring: Wiring, note: number, reader: number): Wiring {
  return wiring.map((notes, seat) => {
    if (seat !== reader) return notes
    return notes.includes(note) ? notes.filter((one) => one !== note) : [...notes, note].sort((a, b) => a - b)
  })
}

/** Arrows as text, each reader's notes counted from 1: `12.2.34.-` */
export const arrowsText = (wiring: Wiring): string =>
  wiring.map((notes) => notes.map((note) => note + 1).join('') || '-').join('.')

/** The wiring that `arrowsText` or a ready sight's name stands for; null for any other text. */
export function parseWiring(text: string): Wiring | null {
  if (Object.hasOwn(presets, text)) return presets[text]
  const readers = text.split('.')
  const isList = (notes: string) =>
    notes === '-' || (/^[1-4]{1,4}$/.test(notes) && new Set(notes).size === notes.length)
  if (readers.length !== SEATS || !readers.every(isList)) return null
  return readers.map((notes) =>
    notes === '-' ? [] : [...notes].map((note) => Number(note) - 1).sort((a, b) => a - b),
  )
}

/** What a wiring is called where it is recorded and linked: a ready sight's name, or its arrows. */
export const wiringName = (wiring: Wiring): string => presetOf(wiring) ?? arrowsText(wiring)

/** The sight of a wiring. */
export function sightOf(wiring: Wiring): Sight {
  const preset = presetOf(wiring)
  return preset ? sights[preset] : named(arrowsText(wiring), (seat) => wiring[seat])
}

/** Whom one reader reads, in words. */
export function readerSentence(wiring: Wiring, reader: number): string {
  const notes = wiring[reader]
  const own = notes.includes(reader)
  const who = `Reader ${reader + 1}`
  if (notes.length === 0) return `${who} reads nothing.`
  if (notes.length === SEATS) return `${who} reads all notes.`
  if (own && notes.length === 1) return `${who} reads its own note alone.`
  const listed = notes.map((note) => (note === reader ? `${note + 1} (its own)` : `${note + 1}`))
  return notes.length === 1
    ? `${who} reads note ${listed[0]}.`
    : `${who} reads notes ${listed.slice(0, -1).join(', ')} and ${listed.at(-1)}.`
}
