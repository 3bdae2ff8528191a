/** Speed and memory beside PyTorch + transformers: the same prompts, the same tokens, one after the other. */
import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { notePrompt } from '../../src/board/prompts.ts'
import { loadTokenizer } from '../../src/tokens/tokenizer.ts'
import { ask, questions, smolLm2 } from './peers.ts'

export interface SpeedRequest {
  folder: string
  threads: number
  /** Timed rounds of each kind, after one that warms up. */
  rounds: number
  prompts: number[][]
  /** Samples of each prompt, decoded together. */
  copies: number
  newTokens: number
  trainPrompts: number[][]
  trainCompletions: number[][]
  /** Sequences that PyTorch computes together. */
  microBatch: number
  projections: string[]
}

interface Measured {
  load: number
  generation: number[]
  training: number[]
  peakLoadedMiB: number
  peakMiB: number
}

/** Seconds of each round of work; the first, which warms up, is not counted. */
export async function seconds(rounds: number, work: () => Promise<unknown>): Promise<number[]> {
  await work()
  const found: number[] = []
  for (let round = 0; round < rounds; round++) {
    const started = performance.now()
    await work()
    found.push((performance.now() - started) / 1000)
  }
  return found
}

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1]

/** Measures both sides on SmolLM2-135M-Instruct and prints the comparison. */
export async function speed(): Promise<void> {
  const folder = await smolLm2()
  const tokenizer = await loadTokenizer(folder)
  const texts = await questions()
  const chat = (question: string) => tokenizer.chat(notePrompt(question))
  const problems = texts.slice(0, 6).map(chat)
  const request: SpeedRequest = {
    folder,
    threads: availableParallelism(),
    rounds: 2,
    prompts: texts.slice(0, 8).map(chat),
    copies: 4,
    newTokens: 48,
    trainPrompts: problems.flatMap((prompt) => [prompt, prompt, prompt, prompt]),
    trainCompletions: Array.from({ length: 24 }, (_, i) =>
      tokenizer.encode(`${texts[i]} ${texts[i + 24]} ${texts[i + 48]}`).slice(0, 128),
    ),
    microBatch: 8,
    projections: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
  }
  const ours = await measureOurs(request)
  const { answer: theirs } = await ask<Measured>('peers.py', 'speed', request)
  const generated = request.prompts.length * request.copies * request.newTokens
  const trained = request.trainPrompts.reduce(
    (sum, prompt, i) => sum + prompt.length + request.trainCompletions[i].length,
    0,
  )
  const line = (name: string, a: string, b: string, ratio: string) =>
    process.stdout.write(`${name.padEnd(34)}${a.padStart(14)}${b.padStart(14)}${ratio.padStart(10)}\n`)
  line('', 'this project', 'PyTorch', 'ratio')
  const rates = (name: string, tokens: number, kind: 'generation' | 'training') => {
    const [a, b] = [tokens / median(ours[kind]), tokens / median(theirs[kind])]
    line(name, `${a.toFixed(0)} tok/s`, `${b.toFixed(0)} tok/s`, (a / b).toFixed(2))
  }
  rates(`generation, ${generated} new tokens`, generated, 'generation')
  rates(`forward+backward, ${trained} tokens`, trained, 'training')
  line(
    'load',
    `${ours.load.toFixed(1)} s`,
    `${theirs.load.toFixed(1)} s`,
    (theirs.load / ours.load).toFixed(2),
  )
  for (const kind of ['peakLoadedMiB', 'peakMiB'] as const) {
    const name = kind === 'peakMiB' ? 'peak memory, training' : 'peak memory, loading'
    line(
      name,
      `${ours[kind].toFixed(0)} MiB`,
      `${theirs[kind].toFixed(0)} MiB`,
      (theirs[kind] / ours[kind]).toFixed(2),
    )
  }
}

function measureOurs(request: SpeedRequest): Promise<Measured> {
  const script = fileURLToPath(new URL('./speed-ours.ts', import.meta.url))
  const child = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), script], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  child.stdin.end(JSON.stringify(request))
  let stdout = ''
  child.stdout.on('data', (data) => {
    stdout += data
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) =>
      code === 0
        ? resolve(JSON.parse(stdout) as Measured)
        : reject(new Error(`speed-ours.ts: exit code ${code}`)),
    )
  })
}
