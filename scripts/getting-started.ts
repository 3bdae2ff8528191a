/**
 * A new user's first ten minutes: runs every command of docs/getting-started.md in its order, in a fresh clone, and writes what
 * was printed to docs/public/first-ten-minutes.txt, which the page links to. Ends with an error at the first command that fails.
 *
 *   npx tsx scripts/getting-started.ts
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const page = join(root, 'docs/getting-started.md')
const log = join(root, 'docs/public/first-ten-minutes.txt')

/** What a new user's shell has: nothing of the npm that may have started this script. */
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('npm_')))

/** The commands of the page, one a line of its shell blocks. */
export function commandsOf(markdown: string): string[] {
  return [...markdown.matchAll(/^```sh\n(.*?)\n```$/gms)].flatMap(([, block]) => block.split('\n'))
}

/** The file that the page has the reader save. */
export function savedFile(markdown: string): { as: string; from: string } {
  const [, as] = /^Save this as `(.+)`:$/m.exec(markdown)!
  const [, from] = /^<<< \.\/(.+)$/m.exec(markdown)!
  return { as, from }
}

/** What a command printed, how it ended, and the seconds that it took. A server is stopped once it has answered. */
async function runCommand(command: string, cwd: string) {
  const started = performance.now()
  // A group of its own: Ctrl-C reaches what the shell started too.
  const shell = spawn('bash', ['-c', command], {
    cwd,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let printed = ''
  let asked: Promise<void> | null = null
  const take = (chunk: Buffer) => {
    printed += chunk
    const address = /message-board serve/.test(command) ? /http:\/\/\S+/.exec(printed)?.[0] : undefined
    if (address !== undefined) asked ??= askAndStop(address, shell)
  }
  shell.stdout.on('data', take)
  shell.stderr.on('data', take)
  const [code] = await once(shell, 'close')
  await asked
  return {
    printed,
    code: Number(code),
    seconds: (performance.now() - started) / 1000,
    served: asked !== null,
  }
}

async function askAndStop(address: string, shell: ChildProcess): Promise<void> {
  const { ok, status } = await fetch(address)
  process.kill(-shell.pid!, 'SIGINT')
  if (!ok) throw new Error(`${address} answered ${status}`)
}

async function main() {
  const markdown = await readFile(page, 'utf8')
  const folder = await mkdtemp(join(tmpdir(), 'first-ten-minutes-'))
  const clone = join(folder, 'message-board')
  try {
    execFileSync('git', ['clone', '--quiet', root, clone])
    const { as, from } = savedFile(markdown)
    await copyFile(join(clone, 'docs', from), join(clone, as))
    let text = `Every command of docs/getting-started.md, in its order, in a fresh clone.
Node ${process.version}, ${cpus().length} cores of ${cpus()[0].model.trim()}. Seconds are of this machine, with whatever else it had to do.
`
    for (const command of commandsOf(markdown)) {
      console.log(`$ ${command}`)
      const { printed, code, seconds, served } = await runCommand(command, clone)
      // A folder's name is of this run alone, and a browser's colours are of none.
      const shown = printed.replaceAll(clone, '.').replaceAll('\r', '\n').trimEnd()
      const how = served ? 'answered, and stopped with Ctrl-C' : `exit ${code}`
      text += `\n$ ${command}\n${shown}\n[${how}, ${seconds.toFixed(0)} s]\n`
      console.log(`[${how}, ${seconds.toFixed(0)} s]`)
      if (code !== 0 && !(served && code === 130)) throw new Error(`${command} failed:\n${shown}`)
    }
    await mkdir(join(root, 'docs/public'), { recursive: true })
    await writeFile(log, text)
  } finally {
    await rm(folder, { recursive: true })
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main()
