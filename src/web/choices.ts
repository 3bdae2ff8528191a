/** What a person chose on the page, as the part of the address after the question mark: names and texts. Pure. */
export type Choices = Readonly<Record<string, string>>

/** Readable where it can be: commas, colons and spaces stand as they are, or as `+`. */
export function choicesText(choices: Choices): string {
  return new URLSearchParams(choices).toString().replaceAll('%2C', ',').replaceAll('%3A', ':')
}

export function parseChoices(text: string): Choices {
  return Object.fromEntries(new URLSearchParams(text))
}

/** How one setting stands in the address: `write` gives null for what a view has unless told. */
export interface Wording<T> {
  read: (text: string) => T
  write: (value: T) => string | null
}

export const wholeChoice = (unless: number): Wording<number> => ({
  read: (text) => (/^\d{1,9}$/.test(text) ? Number(text) : unless),
  write: (value) => (value === unless ? null : String(value)),
})

export const textChoice: Wording<string> = {
  read: (text) => text,
  write: (value) => (value === '' ? null : value),
}

export const yesChoice: Wording<boolean> = {
  read: (text) => text === 'yes',
  write: (value) => (value ? 'yes' : null),
}

/** Some of a list, in its order. */
export const someOf = <T extends string>(all: readonly T[]): Wording<ReadonlySet<T>> => ({
  read: (text) => {
    const named = text.split(',')
    return new Set(all.filter((one) => named.includes(one)))
  },
  write: (chosen) => (chosen.size === 0 ? null : all.filter((one) => chosen.has(one)).join(',')),
})

/** From one step to another, both included; null: all. */
export type Span = readonly [from: number, to: number] | null

export const spanChoice: Wording<Span> = {
  read: (text) => {
    const [, from, to] = /^(\d{1,9})-(\d{1,9})$/.exec(text) ?? []
    return from !== undefined && Number(from) < Number(to) ? [Number(from), Number(to)] : null
  },
  write: (span) => (span === null ? null : `${span[0]}-${span[1]}`),
}

/** Any names, in no order that matters. */
export const namesChoice: Wording<ReadonlySet<string>> = {
  read: (text) =>
    new Set(
      text
        .split(',')
        .filter(Boolean)
        .map((name) => name.replaceAll('~c', ',').replaceAll('~t', '~')),
    ),
  write: (names) =>
    names.size === 0
      ? null
      : [...names].map((name) => name.replaceAll('~', '~t').replaceAll(',', '~c')).join(','),
}
