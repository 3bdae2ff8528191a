/** Who may ask: which Host a request may name, and the token that a server open to others asks for. Pure. */
import { createHash, timingSafeEqual } from 'node:crypto'
import { isIP } from 'node:net'

const loopback = ['localhost', '127.0.0.1', '[::1]']

/**
 * Whether a request's Host header is one that this server goes by. A page of another site can make a browser send
 * requests here by pointing a name of its own at this address; such a request still names that other host. Its port is
 * no matter: a container's or a tunnel's differs from the one that is listened on. Addresses as such cannot be pointed
 * anywhere, so a server that is open to others, under `names`, takes them all; null for one that is not open.
 */
export function isOwnHost(header: string | undefined, names: readonly string[] | null): boolean {
  const match = /^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?$/.exec(header ?? '')
  if (!match) return false
  const name = match[1].toLowerCase().replace(/\.$/, '')
  if (loopback.includes(name)) return true
  if (!names) return false
  return names.includes(name) || isIP(name.replace(/^\[|\]$/g, '')) !== 0
}

/** What a machine of this name is called on its network, beside the address that it is told to listen on. */
export function namesOf(host: string, machine: string): string[] {
  const [label] = machine.split('.')
  return [host, machine, label, `${label}.local`].map((name) => name.toLowerCase())
}

export const isLoopback = (host: string): boolean => [...loopback, '::1'].includes(host.toLowerCase())

/** By the token and not by the port, which a browser does not tell cookies apart by and others may change. */
export const cookieName = (token: string): string =>
  `message-board-${createHash('sha256').update(token).digest('hex').slice(0, 8)}`

/** Whether a request brings the token, as a cookie or as a bearer token. */
export function hasToken(
  headers: { cookie?: string | undefined; authorization?: string | undefined },
  token: string,
): boolean {
  const cookies = (headers.cookie ?? '').split(';').map((part) => part.trim())
  const prefix = `${cookieName(token)}=`
  const offered = [
    ...cookies.filter((part) => part.startsWith(prefix)).map((part) => part.slice(prefix.length)),
    ...(headers.authorization?.startsWith('Bearer ') ? [headers.authorization.slice(7)] : []),
  ]
  return offered.some((value) => isSame(value, token))
}

/** Compares in time that does not tell how much of it was right. */
export function isSame(offered: string, token: string): boolean {
  const [a, b] = [Buffer.from(offered), Buffer.from(token)]
  return a.length === b.length && timingSafeEqual(a, b)
}
