/**
 * Milliseconds of a sampling step on a GPU, with random weights: whole generations in the GPU's lane, less those of one
 * token. `--check` also compares the log-probabilities with those that the CPU's lane gives the same tokens; `--layers`
 * takes fewer, for a device or a CPU that is slow.
 *
 *     npx tsx bench/sampling.ts --device webgpu --shape qwen2.5-1.5b --samples 48 --prompt 1234 --steps 384
 */
import { parseArgs } from 'node:util'
import { chooseDevice, type Device } from '../src/engine/onnx/device.ts'
import { openGpuLane } from '../src/engine/onnx/gpu/lane.ts'
import { type LaneOptions, openLane } from '../src/engine/onnx/lane.ts'
import { random } from '../src/random.ts'
import { randomWeights, shapes } from './models.ts'

const { values: flags } = parseArgs({
  options: {
    device: { type: 'string', default: 'webgpu' },
    shape: { type: 'string', default: 'qwen2.5-1.5b' },
    layers: { type: 'string' },
    samples: { type: 'string', default: '48' },
    prompt: { type: 'string', default: '150' },
    steps: { type: 'string', default: '64' },
    topP: { type: 'string', default: '1' },
    repeats: { type: 'string', default: '3' },
    check: { type: 'boolean', default: false },
  },
})
const shape = shapes[flags.shape]
if (shape === undefined) throw new Error(`--shape is one of ${Object.keys(shapes).join(', ')}`)
const config = { ...shape, layers: Number(flags.layers ?? shape.layers) }
const [samples, length, steps] = [flags.samples, flags.prompt, flags.steps].map(Number)
const place = await chooseDevice(flags.device as Device)
const weights = [...randomWeights(config)].map(([name, tensor]) => ({ name, ...tensor }))
const options: LaneOptions = {
  config,
  weights,
  threads: 1,
  prefillTokens: 2048,
  packsSteps: false,
  rotaryLength: length + steps,
  place,
}
// The lane lets go of what it was given.
const lane = openGpuLane({ ...options })
const stream = random('bench sampling')
const prompt = Array.from({ length }, () => stream.int(config.vocabSize))
const generate = async (maxTokens: number) => {
  const start = performance.now()
  const [group] = await lane.generate(
    {
      kind: 'generate',
      overlay: null,
      requests: [{ prompt, n: samples, seed: 1 }],
      sampling: { maxTokens, temperature: 0.9, topP: Number(flags.topP), stop: [] },
    },
    () => {},
    () => {},
  )
  return { group, ms: performance.now() - start }
}
const timed: number[] = []
let group = (await generate(steps)).group
for (let repeat = 0; repeat < Number(flags.repeats); repeat++) {
  const { ms: first } = await generate(1)
  const whole = await generate(steps)
  group = whole.group
  timed.push((whole.ms - first) / (steps - 1))
}
console.log(`${place.device}, ${place.precision}: ${timed.map((ms) => ms.toFixed(2)).join(', ')} ms a step`)
if (flags.check) {
  const completions = group.map(({ tokens }) => tokens)
  const rows = completions.map((_, i) => ({ prompt, members: [i], length: length + steps - 1 }))
  const scores = await openLane({ ...options, place: { device: 'cpu', precision: 'float32' } }).score({
    kind: 'score',
    overlay: null,
    batches: rows.map((row) => ({ rows: [row], completions })),
    temperature: 0.9,
  })
  const errors = group.flatMap(({ logprobs }, i) => logprobs.map((l, t) => l - (scores.get(i)?.[t] ?? 0)))
  const worst = errors.reduce((most, error) => Math.max(most, Math.abs(error)), 0)
  console.log(`log-probabilities against the CPU: ${worst.toExponential(1)}`)
}
process.exit()
