/**
 * Loaded before a program (`node --import tsx --import test/campaigns/dies.ts`), it kills that program at one of its writes,
 * which DIES names: `12 before`, `12 after`, or `12 within`, which leaves half of what the twelfth write was to write.
 * Writes are those of `node:fs/promises`, folders flushed and files removed among them.
 */
import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'

const [at, where] = (process.env.DIES ?? '').split(' ')
// A process that this one starts lives on.
delete process.env.DIES

type Method = (this: unknown, ...given: unknown[]) => Promise<unknown>
type Methods = Record<string, Method>

let writes = 0
const die = () => process.kill(process.pid, 'SIGKILL')

/** `half` cuts the arguments of a write. */
function watch(methods: Methods, name: string, half?: (given: unknown[]) => unknown[]): void {
  const real = methods[name]
  methods[name] = async function (...given) {
    const isLast = ++writes === Number(at)
    if (isLast && where === 'before') die()
    if (isLast && where === 'within' && half) {
      await real.apply(this, half(given))
      die()
    }
    const result = await real.apply(this, given)
    if (isLast) die()
    return result
  }
}

const methods = fs as unknown as Methods
const file = await fs.open('/dev/null')
const handle = Object.getPrototypeOf(file) as Methods
await file.close()
for (const name of ['rename', 'mkdir', 'rm', 'truncate', 'link', 'symlink', 'unlink', 'writeFile'])
  watch(methods, name)
for (const name of ['sync', 'truncate']) watch(handle, name)
const start = (data: unknown) => (data as string | Uint8Array).slice(0, (data as string).length >> 1)
watch(handle, 'writeFile', ([data, ...rest]) => [start(data), ...rest])
watch(handle, 'write', ([data, offset, length, position]) => [
  data,
  offset,
  (length as number) >> 1,
  position,
])
syncBuiltinESMExports()
