/**
 * What the experiment asks of a fleet: calls, bytes and tokens a step, what limits it, what a run costs. Arithmetic from
 * the assumptions below and from the engine's own code, written into docs/tinker.md: npx tsx scripts/tinker-scale.ts
 */
import { readFile, writeFile } from 'node:fs/promises'
import type { ModelConfig } from '../src/engine/checkpoint/config.ts'
import { projections, weightShapes } from '../src/engine/checkpoint/folder.ts'
import { policyDatum } from '../src/engine/tinker/loss.ts'
import { sampleBody } from '../src/engine/tinker/sampling.ts'
import { referenceSettings } from '../src/experiment/defaults.ts'
import { random } from '../src/random.ts'
import { table } from './markdown.ts'

const { board, train, evaluation, seeds, problems } = referenceSettings
const { copies, noteTokens, replyTokens } = board
const { problemsPerStep, steps, lora } = train

/** Tokens of a question in its prompt. */
const questionTokens = 150

/** One GPU, what of it is reached, and what it costs. */
const gpu = {
  name: 'H200',
  tflops: 989,
  tbPerSecond: 4.8,
  reached: { compute: 0.35, memory: 0.6 },
  dollars: 3.5,
}
/** Seconds of one decoding step that are not reading weights: launching it and choosing its tokens. */
const decodeOverhead = 0.003
/** Seconds that a server adds to a call by looking for work, and for results, every so often (SkyRL: 0.1 to 1). */
const wait = 0.4

/** Bytes a second at which a server writes a state. */
const disk = 1e9

const shape = (
  hiddenSize: number,
  layers: number,
  intermediateSize: number,
  heads: number,
  kvHeads: number,
  vocabSize: number,
  tieEmbeddings: boolean,
): ModelConfig => ({
  architecture: 'llama',
  vocabSize,
  hiddenSize,
  layers,
  heads,
  kvHeads,
  headDim: 128,
  intermediateSize,
  rmsNormEps: 1e-6,
  ropeTheta: 10_000,
  ropeScaling: null,
  tieEmbeddings,
  attentionBias: false,
  qkNorm: false,
  contextLength: 32_768,
  bosTokenId: null,
  eosTokenIds: [0],
})

/** The shapes of Qwen2.5-1.5B, Qwen2.5-7B and Llama 3 70B, and the GPUs that each is given. */
const models = [
  { name: '1.5B', gpus: 1, config: shape(1536, 28, 8960, 12, 2, 151_936, true) },
  { name: '7B', gpus: 1, config: shape(3584, 28, 18_944, 28, 4, 152_064, false) },
  { name: '70B', gpus: 8, config: shape(8192, 80, 28_672, 64, 8, 128_256, false) },
]

// Every text is taken at its limit: these are upper bounds.
const readTokens = { own: questionTokens + noteTokens, shared: questionTokens + copies * noteTokens }
/** Prompts that differ: a server with a prefix cache computes each of them once. */
const prompts = { own: copies, shared: 1 }

const stream = random('scale')
const tokens = (n: number) => Array.from({ length: n }, () => stream.int(150_000))
const logprobs = (n: number) => Array.from({ length: n }, () => -Math.abs(stream.normal()))
const bytes = (value: unknown) => Buffer.byteLength(JSON.stringify(value))
const sampling = { temperature: 1, topP: 1, stop: [151_645] }

/** One step of an arm, as this client sends it. */
function stepOf(arm: 'own' | 'shared') {
  const read = readTokens[arm]
  const datum = policyDatum(
    {
      prompt: tokens(read),
      completion: tokens(replyTokens),
      logprobs: logprobs(replyTokens),
      advantages: logprobs(replyTokens),
    },
    1,
    tokens(replyTokens).map(() => true),
  )
  const sequences = problemsPerStep * copies
  // One call a text, so that each has a seed of its own.
  const requests = 2 * sequences
  const note = sampleBody(tokens(questionTokens), 1, { ...sampling, maxTokens: noteTokens })
  const reply = sampleBody(tokens(read), 1, { ...sampling, maxTokens: replyTokens })
  const sampledTokens = sequences * (noteTokens + replyTokens)
  const perSampled = bytes([tokens(100), logprobs(100)]) / 100
  return {
    requests,
    sampledTokens,
    promptTokens: problemsPerStep * (questionTokens + prompts[arm] * read),
    trainedTokens: sequences * (read + replyTokens),
    up: sequences * (bytes(note) + bytes(reply) + bytes(datum)),
    // Sampled tokens with their log-probabilities, and the log-probabilities of all trained positions.
    down: sampledTokens * perSampled + (sequences * (read + replyTokens) * bytes(logprobs(100))) / 100,
  }
}

const product = (shape: readonly number[]) => shape.reduce((size, n) => size * n, 1)
const parametersOf = (config: ModelConfig) =>
  [...weightShapes(config).values()].reduce((sum, each) => sum + product(each), 0)
const adapterOf = (config: ModelConfig) =>
  projections(config).reduce((sum, each) => sum + lora.rank * (each.in + each.out), 0)

/** Calls that follow each other in a step: sampler, notes, replies, gradient, update, checkpoint. */
const chain = 6

function secondsOf({ gpus, config }: (typeof models)[number], jobs: number) {
  const parameters = parametersOf(config)
  const step = stepOf('shared')
  const memory = gpus * gpu.tbPerSecond * 1e12 * gpu.reached.memory
  const compute = gpus * gpu.tflops * 1e12 * gpu.reached.compute
  // A batch of a few hundred sequences reads the weights once a token, however many jobs it is made of.
  const decode = (noteTokens + replyTokens) * (decodeOverhead + (2 * parameters) / memory)
  const prefill = (2 * parameters * step.promptTokens) / compute
  // Forward and backward through a frozen base: two products of each weight with each token.
  const learn = (4 * parameters * step.trainedTokens) / compute
  // Adapter and optimiser for the checkpoint, and the adapter for the sampler.
  const save = (16 * adapterOf(config)) / disk
  const work = learn + prefill + save
  // Jobs take turns at what fills the GPU, and share the rest.
  return {
    decode,
    compute: learn + prefill,
    save,
    wait: chain * wait,
    step: Math.max(jobs * work, work + decode + chain * wait) / jobs,
  }
}

function costOf(model: (typeof models)[number], jobs: number) {
  const trained = 2 * seeds.length
  const { step, decode } = secondsOf(model, jobs)
  const evaluations = evaluation.baseRuns + 1 + trained
  const portions = Math.ceil(problems.holdout / evaluation.problemsAtOnce)
  const hours = (trained * steps * step + (evaluations * portions * (decode + 2 * wait)) / jobs) / 3600
  return { hours, dollars: hours * model.gpus * gpu.dollars }
}

const whole = (value: number) => Math.round(value).toLocaleString('en-US')
const mega = (value: number) => `${(value / 1e6).toFixed(1)} MB`
const [own, shared] = [stepOf('own'), stepOf('shared')]
const rows = (name: string, of: (step: typeof own) => string) => [name, of(own), of(shared)]
const traffic = table(
  ['a step', 'baseline', 'recipe'],
  [
    rows('`asample` calls, all at once in two waves', ({ requests }) => `${requests}`),
    ['other calls, one after the other', '4', '4'],
    rows('prompt tokens to sample from', ({ promptTokens }) => whole(promptTokens)),
    rows('sampled tokens', ({ sampledTokens }) => whole(sampledTokens)),
    rows('trained tokens, prompts included', ({ trainedTokens }) => whole(trainedTokens)),
    rows('sent', ({ up }) => mega(up)),
    rows('received', ({ down }) => mega(down)),
  ],
)
const sizes = table(
  ['', ...models.map(({ name, gpus }) => `${name} on ${gpus}`)],
  [
    ['parameters, billions', ...models.map(({ config }) => (parametersOf(config) / 1e9).toFixed(2))],
    ['adapter, downloaded at the end', ...models.map(({ config }) => mega(4 * adapterOf(config)))],
    [
      'state a step on the server (adapter, Adam)',
      ...models.map(({ config }) => mega(12 * adapterOf(config))),
    ],
    ['decoding, seconds a step', ...models.map((model) => secondsOf(model, 1).decode.toFixed(1))],
    [
      'prefill and training, seconds a step',
      ...models.map((model) => secondsOf(model, 1).compute.toFixed(1)),
    ],
    [
      'writing checkpoint and sampler, seconds a step',
      ...models.map((model) => secondsOf(model, 1).save.toFixed(1)),
    ],
    [
      'waiting for the server to look, seconds a step',
      ...models.map((model) => secondsOf(model, 1).wait.toFixed(1)),
    ],
    ...[1, 4].flatMap((jobs) => [
      [
        `step with \`--jobs ${jobs}\`, seconds`,
        ...models.map((model) => secondsOf(model, jobs).step.toFixed(1)),
      ],
      [
        `whole run with \`--jobs ${jobs}\`, hours`,
        ...models.map((model) => costOf(model, jobs).hours.toFixed(2)),
      ],
      [`its cost, dollars`, ...models.map((model) => costOf(model, jobs).dollars.toFixed(2))],
    ]),
  ],
)
const assumed =
  `Assumed: the reference's settings (${problemsPerStep} problems a step, ${copies} copies, ${noteTokens} and ${replyTokens} new ` +
  `tokens, ${steps} steps, ${seeds.length} seeds, rank ${lora.rank}), every text as long as it may be, questions of ` +
  `${questionTokens} tokens; ${gpu.name}s of ${gpu.tflops} TFLOPS and ${gpu.tbPerSecond} TB/s, of which ` +
  `${100 * gpu.reached.compute}% and ${100 * gpu.reached.memory}% are reached, at ${gpu.dollars} dollars an hour; ` +
  `states written at ${disk / 1e9} GB/s; ${1000 * decodeOverhead} ms a decoding step beside reading the weights; ${wait} s for each of the ${chain} calls that ` +
  'follow each other, since SkyRL looks for work and for results every 0.1 to 1 s.'

const page = new URL('../docs/tinker.md', import.meta.url)
const text = await readFile(page, 'utf8')
const made = text.replace(
  /<!-- scale -->.*<!-- \/scale -->/s,
  `<!-- scale -->\n${assumed}\n\n${traffic}\n\n${sizes}\n<!-- /scale -->`,
)
await writeFile(page, made)
process.stdout.write(`${traffic}\n\n${sizes}\n`)
