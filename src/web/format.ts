/** Numbers, durations and tables of values as text. Pure. */
export { difference, level, signed, three } from '../report/numbers.ts'

export const whole = (value: number): string => Math.round(value).toLocaleString('en')

/** 75 seconds read 1m 15s. */
export function duration(seconds: number): string {
  const total = Math.max(0, Math.round(seconds))
  const [h, m, s] = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60]
  if (h > 0) return `${h}h ${m}m`
  return m > 0 ? `${m}m ${s}s` : `${s}s`
}

/** Nested settings as `path: value` pairs. Lists of plain values stay whole; of others each member is counted from 1. */
export function flat(value: unknown, path = ''): [path: string, value: string][] {
  const isPlain = typeof value !== 'object' || value === null
  if (isPlain || (Array.isArray(value) && !value.some(isRecord))) {
    return [[path, typeof value === 'string' ? value : JSON.stringify(value)]]
  }
  return Object.entries(value).flatMap(([key, inner]) => {
    const name = Array.isArray(value) ? String(Number(key) + 1) : key
    return flat(inner, path === '' ? name : `${path}.${name}`)
  })
}

const isRecord = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * CSV as RFC 4180 has it, with a header. A cell that a spreadsheet would take for a formula gets an apostrophe
 * before it.
 */
export function csv(rows: readonly Record<string, string | number | boolean | null>[]): string {
  const header = Object.keys(rows[0] ?? {})
  const cell = (value: string | number | boolean | null) => {
    const text = value === null ? '' : String(value)
    const safe = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
  }
  return [header, ...rows.map((row) => header.map((key) => row[key]))]
    .map((cells) => `${cells.map(cell).join(',')}\r\n`)
    .join('')
}
