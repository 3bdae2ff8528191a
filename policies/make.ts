/**
 * Makes the built-in policy: a small Llama trained from scratch, with the engine's own training path, on chats made
 * from the worlds' corpus slices, in the parts of its recipe; then measured with the real rounds and the real verifier,
 * and described in a model card that this script writes.
 *
 *   npm run train:policy -- [--out policies/small] [--work runs/train-policy]
 *
 * Deterministic: weights, chats and their order follow from the recipe's seed, and sums over lanes are taken in a
 * fixed order. It can be stopped at any moment; the same command goes on from the last checkpoint.
 */
import { copyFile, mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import type { ModelConfig } from '../src/engine/checkpoint/config.ts'
import { openCheckpoint, type Weights } from '../src/engine/checkpoint/folder.ts'
import type { SupervisedDatum } from '../src/engine/contract.ts'
import { createTrainer, initialWeights } from '../src/engine/onnx/trainer.ts'
import { readJsonFile, writeFileAtomic, writeJsonAtomic } from '../src/files.ts'
import { tokenizerFiles, trainBpe } from '../src/tokens/bpe.ts'
import { type CheckpointTokenizer, loadTokenizer } from '../src/tokens/tokenizer.ts'
import { modelCard } from './make/card.ts'
import { corpusChat } from './make/corpus/index.ts'
import type { Cut } from './make/corpus/types.ts'
import { measure } from './make/measure.ts'
import { type LogLine, recipe } from './make/recipe.ts'

const specials = { pad: '<|endoftext|>', startOfTurn: '<|im_start|>', endOfTurn: '<|im_end|>' }

const config: ModelConfig = {
  architecture: 'llama',
  vocabSize: recipe.vocabSize,
  hiddenSize: 128,
  layers: 4,
  heads: 4,
  kvHeads: 1,
  headDim: 32,
  intermediateSize: 384,
  rmsNormEps: 1e-5,
  ropeTheta: 10_000,
  ropeScaling: null,
  tieEmbeddings: true,
  attentionBias: false,
  qkNorm: false,
  contextLength: 768,
  bosTokenId: null,
  eosTokenIds: [2],
}

const tokenizerNames = ['tokenizer.json', 'tokenizer_config.json'] as const
const checkpointEvery = 100
const logEvery = 20

const stateSchema = z.object({
  /** The recipe and the model it belongs to, as JSON. */
  recipe: z.string(),
  step: z.number().int(),
  seconds: z.number(),
  tokens: z.number(),
  log: z.array(z.custom<LogLine>()),
})
type State = z.infer<typeof stateSchema>

/** Shortens nothing. */
const whole: Cut = { note: (text) => text, reply: (text) => text }

/** Learns the vocabulary from whole chats, the prompts' wording included, so that common words are one token. */
async function writeTokenizer(folder: string): Promise<void> {
  const texts: string[] = []
  // Far from the chats that training will reach, though of the same slice.
  for (let i = 0; i < 6000; i++) {
    const { messages, replies } = corpusChat(100_000_000 + i, recipe.parts[0], false, whole)
    texts.push('user\n', ...messages.map(({ content }) => content), '\n', 'assistant\n', ...replies)
  }
  const bpe = trainBpe(texts, recipe.vocabSize, Object.values(specials))
  const files = tokenizerFiles(bpe, { ...specials, contextLength: config.contextLength })
  for (const name of tokenizerNames) await writeJsonAtomic(join(folder, name), files[name])
}

function firstWeights(): Weights {
  const weights = initialWeights(config, recipe.seed)
  for (const [name, { data }] of weights) {
    if (name.endsWith('norm.weight')) continue
    const residual = /o_proj|down_proj/.test(name) ? Math.sqrt(2 * config.layers) : 1
    // initialWeights draws with a deviation of 0.02.
    for (let i = 0; i < data.length; i++) data[i] *= recipe.initialDeviation / 0.02 / residual
  }
  return weights
}

const lastStep = recipe.parts.reduce((sum, { steps }) => sum + steps, 0)

/** The part that a step belongs to, and the step that it begins with. */
function partAt(step: number): { part: (typeof recipe.parts)[number]; from: number } {
  let from = 0
  for (const part of recipe.parts) {
    if (step < from + part.steps) return { part, from }
    from += part.steps
  }
  throw new Error(`step ${step} is beyond the recipe's ${lastStep}`)
}

/** The chats of a step as data to imitate, each reply token weighted alike. */
function stepData(step: number, tokenizer: CheckpointTokenizer): { data: SupervisedDatum[]; tokens: number } {
  const { part, from } = partAt(step)
  const writersOnly = step - from < part.writersOnly * part.steps
  const count = writersOnly ? part.chats.writers : part.chats.everyone
  const cutAt = (limit: number) => (text: string) => {
    const tokens = tokenizer.encode(text)
    return tokens.length < limit ? text : tokenizer.decode(tokens.slice(0, limit))
  }
  const limits = { note: recipe.noteTokens, reply: recipe.replyTokens }
  const cut: Cut = { note: cutAt(limits.note), reply: cutAt(limits.reply) }
  let tokens = 0
  const sequences = Array.from({ length: count }, (_, i) => {
    const { messages, replies, limit } = corpusChat(step * 64 + i, part, writersOnly, cut)
    const prompt = tokenizer.chat(messages)
    tokens += prompt.length
    const most = limit === null ? Number.POSITIVE_INFINITY : limits[limit]
    return replies.map((reply) => ({
      prompt,
      completion: [...tokenizer.encode(reply), tokenizer.stop[0]].slice(0, most),
    }))
  }).flat()
  const replyTokens = sequences.reduce((sum, { completion }) => sum + completion.length, 0)
  const data = sequences.map((sequence) => ({
    ...sequence,
    weights: sequence.completion.map(() => 1 / replyTokens),
  }))
  return { data, tokens: tokens + replyTokens }
}

function learningRateAt(step: number): number {
  const { part, from } = partAt(step)
  return part.learningRate * Math.min(1, (step - from + 1) / part.warmup) * (1 - (step - from) / part.steps)
}

async function train(work: string): Promise<State> {
  await mkdir(work, { recursive: true })
  await writeTokenizer(work)
  const tokenizer = await loadTokenizer(work)
  const key = JSON.stringify({ recipe, config })
  const saved = await readJsonFile(join(work, 'state.json'), stateSchema, { optional: true })
  let state: State = { recipe: key, step: 0, seconds: 0, tokens: 0, log: [] }
  if (saved?.recipe === key) {
    state = saved
    console.log(`going on from step ${state.step}`)
  }
  while (state.step < lastStep) state = await trainPart(state, tokenizer, work)
  return state
}

const folderOf = (work: string, step: number) => join(work, `step-${step}`)

/** Trains the part that `state` stands in to its end. */
async function trainPart(state: State, tokenizer: CheckpointTokenizer, work: string): Promise<State> {
  const { part, from } = partAt(state.step)
  const end = from + part.steps
  const weights: Weights =
    state.step === 0 ? firstWeights() : await (await openCheckpoint(folderOf(work, state.step))).loadWeights()
  const trainer = createTrainer(config, weights, { threads: recipe.threads })
  try {
    if (state.step > from) await trainer.loadOptimizer(folderOf(work, state.step))
    const sums = { loss: 0, gradNorm: 0, steps: 0 }
    let last = performance.now()
    while (state.step < end) {
      const { data, tokens } = stepData(state.step, tokenizer)
      const learningRate = learningRateAt(state.step)
      const { loss } = await trainer.forwardBackwardSupervised(data)
      const { gradNorm } = await trainer.optimStep({ ...recipe.adam, learningRate })
      sums.loss += loss
      sums.gradNorm += gradNorm
      sums.steps++
      const now = performance.now()
      const seconds = state.seconds + (now - last) / 1000
      last = now
      state = { ...state, step: state.step + 1, tokens: state.tokens + tokens, seconds }
      if (state.step % logEvery === 0) {
        const line: LogLine = {
          step: state.step,
          loss: round(sums.loss / sums.steps),
          gradNorm: round(sums.gradNorm / sums.steps),
          learningRate: round(learningRate, 8),
          tokens: state.tokens,
        }
        Object.assign(sums, { loss: 0, gradNorm: 0, steps: 0 })
        state = { ...state, log: [...state.log, line] }
        const left = (seconds / state.step) * (lastStep - state.step)
        console.log(
          `step ${state.step}/${lastStep}  loss ${line.loss.toFixed(4)}  grad ${line.gradNorm.toFixed(2)}  ` +
            `${Math.round(state.tokens / seconds)} tokens/s  ${Math.ceil(left / 60)} min left`,
        )
      }
      if (state.step % checkpointEvery === 0 || state.step === end) {
        const folder = folderOf(work, state.step)
        await trainer.saveCheckpoint(folder, 'F32')
        await trainer.saveOptimizer(folder)
        const before = await readJsonFile(join(work, 'state.json'), stateSchema, { optional: true })
        await writeJsonAtomic(join(work, 'state.json'), state)
        if (before && before.step !== state.step)
          await rm(folderOf(work, before.step), { recursive: true, force: true })
      }
    }
  } finally {
    await trainer.close()
  }
  return state
}

function round(value: number, digits = 5): number {
  return Number(value.toFixed(digits))
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      out: { type: 'string', default: 'policies/small' },
      work: { type: 'string', default: 'runs/train-policy' },
    },
  })
  const { out, work } = values
  const state = await train(work)
  await mkdir(out, { recursive: true })
  for (const name of ['config.json', 'model.safetensors']) {
    await copyFile(join(folderOf(work, state.step), name), join(out, name))
  }
  for (const name of tokenizerNames) await copyFile(join(work, name), join(out, name))
  const log = state.log.map((line) => JSON.stringify(line)).join('\n')
  await writeFileAtomic(join(out, 'training-log.jsonl'), `${log}\n`)
  console.log('measuring')
  const figures = await measure(out)
  const card = modelCard({ recipe, config, state, figures, bytes: await sizeOf(out) })
  await writeFileAtomic(join(out, 'README.md'), card)
  console.log(card)
}

/** Bytes of the policy's own files. */
async function sizeOf(folder: string): Promise<number> {
  const names = ['config.json', 'model.safetensors', ...tokenizerNames, 'training-log.jsonl']
  const files = await Promise.all(names.map((name) => readFile(join(folder, name))))
  return files.reduce((sum, { length }) => sum + length, 0)
}

await main()
