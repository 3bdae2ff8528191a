/** Who may ask: which Host a request may name, and the token that a server open to others asks for. Pure. */
import { timingSafeEqual } from 'node:crypto'
import { isIP } from 'node:net'

const loopback = ['localhost', '127.0.0.1', '[::1]']

/**
 * Whether a request's Host header is one that this server goes by. A page of another site can make a browser send
 * requests here by pointing a name of its own at this address; such a request still names that other host.
 * Addresses as such cannot be pointed anywhere, so a server that is open to others takes them all.
 */
export function isOwnHost(header: string | undefined, port: number, open: { host: string } | null): boolean {
  const match = /^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::(\d{1,5}))?$/.exec(header ?? '')
  if (!match) return false
  const [, name, given = '80'] = match
  if (Number(given) !== port) return false
  const host = name.toLowerCase()
  if (loopback.includes(host)) return true
  if (!open) return false
  return host === open.host.toLowerCase() || isIP(host.replace(/^\[|\]$/g, '')) !== 0
}

export const isLoopback = (host: string): boolean => [...loopback, '::1'].includes(host.toLowerCase())

export const cookieName = (port: number): string => `message-board-${port}`

/** Whether a request brings the token, as a cookie or as a bearer token. */
export function hasToken(
  headers: { cookie?: string | undefined; authorization?: string | undefined },
  port: number,
  token: string,
): boolean {
  const cookies = (headers.cookie ?? '').split(';').map((part) => part.trim())
  const prefix = `${cookieName(port)}=`
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
