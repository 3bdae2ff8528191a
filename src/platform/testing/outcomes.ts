/** What files do, as plain data: the same of the system's, of a browser's and of those in memory. */
import type * as files from '../files.ts'

export type Files = Pick<
  typeof files,
  | 'constants'
  | 'copyFile'
  | 'entries'
  | 'lstat'
  | 'mkdir'
  | 'open'
  | 'readFile'
  | 'readdir'
  | 'realpath'
  | 'rename'
  | 'rm'
  | 'stat'
>

/** Uses the files in a folder that is not there yet, and tells what came of each call. */
export async function outcomesOf(its: Files, folder: string): Promise<[what: string, outcome: unknown][]> {
  const { constants, copyFile, entries, lstat, mkdir, open, readFile, readdir, realpath, rename, rm, stat } =
    its
  const outcomes: [string, unknown][] = []
  const at = (name: string) => `${folder}/${name}`
  const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes)
  const attempt = async (what: string, perform: () => Promise<unknown>) => {
    try {
      outcomes.push([what, (await perform()) ?? 'done'])
    } catch (error) {
      outcomes.push([what, (error as { code?: string }).code ?? String(error)])
    }
  }
  const writing = constants.O_WRONLY | constants.O_CREAT
  const write = async (
    name: string,
    flags: number | 'wx',
    change: (file: files.FileHandle) => Promise<unknown>,
  ) => {
    const file = await open(at(name), flags)
    try {
      return await change(file)
    } finally {
      await file.close()
    }
  }

  await attempt('a folder that is not there', () => readdir(folder))
  await attempt('make it, and those above', () => mkdir(at('a/b')))
  await attempt('make it again', () => mkdir(at('a/b')))
  await attempt('write a new file', () =>
    write('a/x', 'wx', async (file) => {
      await file.writeFile('one ')
      await file.writeFile(new TextEncoder().encode('two'))
      await file.sync()
      return (await file.stat()).size
    }),
  )
  await attempt('a new file where one is', () => write('a/x', 'wx', (file) => file.writeFile('')))
  await attempt('read it', async () => decode(await readFile(at('a/x'))))
  await attempt('write within and behind it', () =>
    write('a/x', writing, async (file) => {
      await file.write(new TextEncoder().encode('-ONE-'), 1, 3, 0)
      const { bytesWritten } = await file.write(new TextEncoder().encode('!'), 0, 1, 7)
      return [bytesWritten, (await file.stat()).size]
    }),
  )
  await attempt('read that', async () => decode(await readFile(at('a/x'))))
  await attempt('cut it', () => write('a/x', writing, (file) => file.truncate(3)))
  await attempt('read parts', async () => {
    const file = await open(at('a/x'), 'r')
    const parts: unknown[] = []
    const into = new Uint8Array(4)
    for (const position of [null, null, 1, 9]) {
      const { bytesRead } = await file.read(into, 1, 2, position)
      parts.push([position, bytesRead, decode(into.subarray(1, 1 + bytesRead))])
    }
    await file.close()
    return parts
  })
  await attempt('what it is', async () => {
    const found = await stat(at('a/x'))
    return [found.size, found.isFile(), found.isDirectory(), found.isSymbolicLink(), found.isFIFO()]
  })
  await attempt('what a folder is', async () => (await lstat(at('a'))).isDirectory())
  await attempt(
    'when it changed',
    async () => Math.abs((await stat(at('a/x'))).mtimeMs - Date.now()) < 60_000,
  )
  await attempt('a file that is not there', () => readFile(at('a/y')))
  await attempt('a file below a file', () => readFile(at('a/x/y')))
  await attempt('a folder as a file', () => readFile(at('a')))
  await attempt('what is not there', () => stat(at('a/y')))
  await attempt('the path of a folder', async () => (await realpath(at('a/../a/b'))).endsWith('/a/b'))
  await attempt('the path of nothing', () => realpath(at('a/y')))
  await attempt('copy', () => copyFile(at('a/x'), at('a/b/z')))
  await attempt('copy over a longer file', async () => {
    await write('a/long', writing, (file) => file.writeFile('a longer text'))
    await copyFile(at('a/x'), at('a/long'))
    return decode(await readFile(at('a/long')))
  })
  await attempt('move over another', () => rename(at('a/b/z'), at('a/long')))
  await attempt('move to another folder', () => rename(at('a/long'), at('a/b/x')))
  await attempt('move what is not there', () => rename(at('a/long'), at('a/b/x')))
  await attempt('what is in a folder', async () =>
    (await entries(at('a'))).map((entry) => [entry.name, entry.isFile(), entry.isDirectory()]).sort(),
  )
  await attempt('its names', async () => (await readdir(at('a/b'))).sort())
  await attempt('remove what is not there', () => rm(at('a/y'), {}))
  await attempt('the same by force', () => rm(at('a/y'), { force: true }))
  await attempt('remove a file', () => rm(at('a/x'), {}))
  await attempt('remove a folder', () => rm(folder, { recursive: true, force: true }))
  await attempt('and it is gone', () => stat(folder))
  return outcomes
}
