/** Who and what the generated problems are about: names with their pronouns, things, containers, goods. Data only. */

/** A person of a story, with the pronouns that go with the name. */
export interface Person {
  name: string
  he: string
  his: string
  him: string
}

export const people: readonly Person[] = [
  ...'Mia Ana Zoe Eva Lily Nina Ruth Maya Sara Emma Rosa Amy Kim Tina Lena Jane'
    .split(' ')
    .map((name) => ({ name, he: 'she', his: 'her', him: 'her' })),
  ...'Tom Ben Leo Sam Max Omar Jack Ivan Noah Luke Adam Hugo Raj Paul Finn Carl'
    .split(' ')
    .map((name) => ({ name, he: 'he', his: 'his', him: 'him' })),
]

/** In the plural. */
export const things =
  'apples books cards coins shells stamps marbles pencils stickers beads oranges buttons flowers toys candles stones nuts pens balls photos'.split(
    ' ',
  )

/** In the plural. */
export const containers = 'bags boxes packs jars baskets'.split(' ')

/** Sold by the piece: singular and plural. */
export const goods = [
  ['pen', 'pens'],
  ['ball', 'balls'],
  ['toy', 'toys'],
  ['kite', 'kites'],
  ['lamp', 'lamps'],
  ['cup', 'cups'],
  ['hat', 'hats'],
  ['chair', 'chairs'],
] as const
