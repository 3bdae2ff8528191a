/** Addresses and keys of servers, and what of them may be shown and stored. Pure. */
import { base64, utf8 } from './bytes.ts'
import { UserError } from './errors.ts'
import { shown } from './printable.ts'

/** The address of a server, parted. */
export interface Address {
  /** Without a login, a query and slashes at the end: what may be shown and stored. */
  shown: string
  /** That with the query, and with `path` before it. */
  to(path: string): string
  /** What its login sends as `authorization`. */
  authorization?: string
  /** What must not be shown. */
  secrets: string[]
}

/** Parts the address of an HTTP server; undefined where it is none. */
export function addressOf(text: string): Address | undefined {
  if (!URL.canParse(text)) return undefined
  const url = new URL(text)
  // Behind the host an @ most likely ends a password that has a slash or the like in it, as it is not to be written.
  const behind = url.pathname + url.search + url.hash
  if (!/^https?:$/.test(url.protocol) || behind.includes('@')) return undefined
  const { origin, pathname, search, searchParams } = url
  const shown = `${origin}${pathname}`.replace(/\/+$/, '')
  const [user, password] = [url.username, url.password].map(decoded)
  const hasLogin = user !== '' || password !== ''
  const login = hasLogin ? base64(utf8(`${user}:${password}`)) : ''
  return {
    shown,
    to: (path) => `${shown}/${path}${search}`,
    ...(hasLogin && { authorization: `Basic ${login}` }),
    secrets: [...searchParams.values(), url.password, password, login].filter(({ length }) => length > 3),
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** An address that a message may show, whatever was given for one: a login and a query may be secrets. */
export const shownAddress = (text: string): string =>
  addressOf(text)?.shown ?? shown(text.replace(/^([a-z][a-z0-9+.-]*:\/\/)?.*@/is, '$1').replace(/\?.*$/s, ''))

/**
 * The address of a server whose key is given elsewhere. It is shown and stored, so it may hold no secret.
 *
 * @throws UserError that says what to give instead: `example` for what is no address, the variable `key` for a login.
 */
export function plainAddress(text: string, { example, key }: { example: string; key: string }): string {
  const address = addressOf(text)
  if (!address) throw new UserError(`"${shownAddress(text)}" is no address of a server: give ${example}.`)
  if (address.authorization === undefined && !text.includes('?')) return address.shown
  throw new UserError(
    `The address of ${address.shown} has a login or a query in it: give it without, and a key in the variable ${key}.`,
  )
}

/** A key as it can be sent; `name` says where it is from. */
export function keyOf(key: string, name: string): string {
  const trimmed = key.trim()
  if (/^[\x21-\x7e]+$/.test(trimmed)) return trimmed
  throw new UserError(
    `${name} holds ${trimmed === '' ? 'nothing' : 'a space, a line break or another character that no key has'}: put ` +
      'the key into it once more.',
  )
}
