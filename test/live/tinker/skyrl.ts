/** SkyRL's Tinker API server as functions: an environment of its own, and a server that is started, killed and started again. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, open } from 'node:fs/promises'
import { createServer } from 'node:net'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url))

/** Where the environment and compiled programs are kept between runs. */
const home = process.env.TINKER_HOME ?? join(homedir(), '.cache/message-board/tinker')

/** Python with SkyRL: `TINKER_PYTHON`, or an environment of our own that is made on first use. */
export async function skyrlPython(): Promise<string> {
  if (process.env.TINKER_PYTHON) return process.env.TINKER_PYTHON
  const venv = join(home, 'venv')
  const program = join(venv, 'bin/python')
  const isWhole =
    existsSync(program) && spawnSync(program, ['-c', 'import skyrl, jax, flax, sqlmodel']).status === 0
  if (!isWhole) {
    await mkdir(home, { recursive: true })
    for (const [command, ...args] of [
      ['python3', '-m', 'venv', venv],
      [program, '-m', 'pip', 'install', '--quiet', '-r', here('requirements.txt')],
    ]) {
      const { status } = spawnSync(command, args, { stdio: 'inherit' })
      if (status !== 0) throw new Error(`${command} ${args.join(' ')}: exit code ${status}`)
    }
  }
  return program
}

export interface SkyRl {
  url: string
  start(): Promise<void>
  /** Kills it with its engine (SIGKILL), as a crash would. */
  kill(): Promise<void>
}

/** A server of `model` on this machine's processors; its checkpoints and its record of them are in `store`. */
export async function skyrl(model: string, store: string): Promise<SkyRl> {
  const python = await skyrlPython()
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  let child: ChildProcess | undefined
  return {
    url,
    async start() {
      const log = await open(join(store, 'server.log'), 'a')
      child = spawn(
        python,
        [
          ...[here('server.py'), '--base-model', model, '--port', String(port)],
          ...['--checkpoints-base', join(store, 'checkpoints')],
          ...['--database-url', `sqlite:///${join(store, 'tinker.db')}`],
          // One sequence at a time, and samples in batches of one size: each shape is compiled, which takes seconds.
          '--backend-config',
          JSON.stringify({
            max_lora_adapters: 6,
            max_lora_rank: 8,
            train_micro_batch_size: 1,
            sample_max_num_sequences: 16,
          }),
        ],
        {
          // A process group of its own, so that its engine is killed with it.
          detached: true,
          stdio: ['ignore', log.fd, log.fd],
          env: {
            ...process.env,
            JAX_PLATFORMS: 'cpu',
            JAX_COMPILATION_CACHE_DIR: join(home, 'compiled'),
            JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS: '0.2',
          },
        },
      )
      await log.close()
      for (let tries = 0; tries < 240; tries++) {
        const well = await fetch(`${url}/api/v1/healthz`).then(
          ({ ok }) => ok,
          () => false,
        )
        if (well) return
        if (child.exitCode !== null) break
        await sleep(500)
      }
      throw new Error(`SkyRL does not start: see ${join(store, 'server.log')}`)
    },
    async kill() {
      if (!child?.pid || child.exitCode !== null) return
      const gone = new Promise((resolve) => child?.once('exit', resolve))
      process.kill(-child.pid, 'SIGKILL')
      await gone
    },
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.on('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}
