/** Paths of a browser's files: names divided by slashes, as on POSIX. Pure. */

/** Parts put behind one another, `.` and `..` resolved. */
export function join(...parts: string[]): string {
  const whole = parts.filter((part) => part !== '').join('/')
  const isAbsolute = whole.startsWith('/')
  const names: string[] = []
  for (const name of whole.split('/')) {
    if (name === '' || name === '.') continue
    if (name === '..' && names.length > 0 && names.at(-1) !== '..') names.pop()
    else if (name !== '..' || !isAbsolute) names.push(name)
  }
  return `${isAbsolute ? '/' : ''}${names.join('/')}` || '.'
}

export function dirname(path: string): string {
  const whole = path.replace(/\/+$/, '')
  const end = whole.lastIndexOf('/')
  if (end < 0) return whole === '' && path !== '' ? '/' : '.'
  return whole.slice(0, end).replace(/\/+$/, '') || '/'
}

export function basename(path: string): string {
  const whole = path.replace(/\/+$/, '')
  return whole.slice(whole.lastIndexOf('/') + 1)
}
