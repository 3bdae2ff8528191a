/**
 * Speed and memory beside PyTorch + transformers: the same prompts, the same tokens, in turn. The figures go to
 * bench/results/peers-speed.json, and from there into docs/models.md by scripts/models-figures.ts.
 */
import { spawn } from 'node:child_process'
import { availableParallelism, cpus, loadavg } from 'node:os'
import { fileURLToPath } from 'node:url'
import { notePrompt } from '../../../src/board/prompts.ts'
import { runtimeVersion } from '../../../src/engine/onnx/runtime.ts'
import { writeJsonAtomic } from '../../../src/files.ts'
import { loadTokenizer } from '../../../src/tokens/tokenizer.ts'
import { ask, questions, smolLm2 } from './peers.ts'

export interface SamplingRequest {
  folder: string
  threads: number
  /** Timed rounds of each kind, after one that warms up. */
  rounds: number
  prompts: number[][]
  /** Samples of each prompt, decoded together. */
  copies: number
  newTokens: number
  topP: number
}

export interface SpeedRequest extends SamplingRequest {
  trainPrompts: number[][]
  trainCompletions: number[][]
  /** Sequences that PyTorch computes together. */
  microBatch: number
  projections: string[]
}

/** How often each side is measured: in turn, so that what else the machine does meets both. */
const TURNS = 2

interface Measured {
  /** Of PyTorch's side. */
  versions?: Record<string, string>
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

export const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1]

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
    topP: 0.95,
    trainPrompts: problems.flatMap((prompt) => [prompt, prompt, prompt, prompt]),
    trainCompletions: Array.from({ length: 24 }, (_, i) =>
      tokenizer.encode(`${texts[i]} ${texts[i + 24]} ${texts[i + 48]}`).slice(0, 128),
    ),
    microBatch: 8,
    projections: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
  }
  const turns: { ours: Measured; theirs: Measured; load: number[] }[] = []
  for (let turn = 0; turn < TURNS; turn++) {
    const ours = await measureOurs(request)
    const { answer: theirs } = await ask<Measured>('peers.py', 'speed', request)
    turns.push({ ours, theirs, load: loadavg() })
  }
  const generated = request.prompts.length * request.copies * request.newTokens
  const trained = request.trainPrompts.reduce(
    (sum, prompt, i) => sum + prompt.length + request.trainCompletions[i].length,
    0,
  )
  const line = (name: string, a: string, b: string, ratio: string) =>
    process.stdout.write(`${name.padEnd(34)}${a.padStart(14)}${b.padStart(14)}${ratio.padStart(10)}\n`)
  line('', 'this project', 'PyTorch', 'ratio')
  const all = (side: 'ours' | 'theirs', kind: 'generation' | 'training') =>
    turns.flatMap((turn) => turn[side][kind])
  const rates = (name: string, tokens: number, kind: 'generation' | 'training') => {
    const [a, b] = [tokens / median(all('ours', kind)), tokens / median(all('theirs', kind))]
    line(name, `${a.toFixed(0)} tok/s`, `${b.toFixed(0)} tok/s`, (a / b).toFixed(2))
  }
  rates(`generation, ${generated} new tokens`, generated, 'generation')
  rates(`forward+backward, ${trained} tokens`, trained, 'training')
  const most = (name: string, kind: 'load' | 'peakLoadedMiB' | 'peakMiB', unit: string, digits: number) => {
    const [a, b] = (['ours', 'theirs'] as const).map((side) =>
      Math.max(...turns.map((turn) => turn[side][kind])),
    )
    line(name, `${a.toFixed(digits)} ${unit}`, `${b.toFixed(digits)} ${unit}`, (b / a).toFixed(2))
  }
  most('load', 'load', 's', 1)
  most('peak memory, loading', 'peakLoadedMiB', 'MiB', 0)
  most('peak memory, training', 'peakMiB', 'MiB', 0)
  const { prompts, copies, newTokens, rounds, microBatch } = request
  await writeJsonAtomic(fileURLToPath(new URL('../../../bench/results/peers-speed.json', import.meta.url)), {
    machine: { processor: cpus()[0]?.model ?? 'unknown', threads: request.threads },
    versions: {
      node: process.version,
      'onnxruntime-node': runtimeVersion('native'),
      ...turns[0].theirs.versions,
    },
    shapes: { prompts: prompts.length, copies, newTokens, generated, trained, rounds, microBatch },
    turns,
  })
}

/** Of our side; no seconds of training where none is asked for. */
export function measureOurs(request: SamplingRequest | SpeedRequest): Promise<Measured> {
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
