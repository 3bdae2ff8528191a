/**
 * Times our own kernels on CUDA: those of a step of sampling, each kind alone with all layers' weights, and the whole step.
 *
 *     npx tsx bench/kernels.ts [--shape qwen2.5-1.5b] [--samples 48] [--prompts 12] [--time 1248] [--own 192]
 */
import { parseArgs } from 'node:util'
import { weightShapes } from '../src/engine/checkpoint/folder.ts'
import { openDriver } from '../src/engine/onnx/gpu/kernels/driver.ts'
import type { Launch } from '../src/engine/onnx/gpu/kernels/launch.ts'
import { planStep } from '../src/engine/onnx/gpu/kernels/step.ts'
import { shapes } from './gpu-step.ts'

const { values } = parseArgs({
  options: {
    shape: { type: 'string', default: 'qwen2.5-1.5b' },
    samples: { type: 'string', default: '48' },
    prompts: { type: 'string', default: '12' },
    time: { type: 'string', default: '1248' },
    own: { type: 'string', default: '192' },
    'top-p': { type: 'string', default: '0.95' },
    only: { type: 'string' },
  },
})
const config = shapes[values.shape]
const [samples, prompts, time, own] = [values.samples, values.prompts, values.time, values.own].map(Number)
const window = 384
const driver = openDriver()
const sizes = { samples, prompts, time, window }
const step = planStep(config, sizes, driver.sizes)
const start = performance.now()
await driver.compile(step.units)
console.log(`compiled in ${((performance.now() - start) / 1000).toFixed(2)} s`)

// Weights of the very sizes, so that none is read from a cache for another; numbers that do not overflow.
const noise = new Uint16Array(1 << 20)
for (let i = 0; i < noise.length; i++) noise[i] = (((i * 2654435761) >>> 16) & 0x83ff) | 0x2000
const filled = (bytes: number): bigint => {
  const pointer = driver.allocate(bytes)
  for (let at = 0; at < bytes; at += noise.byteLength)
    driver.write(pointer + BigInt(at), noise.subarray(0, Math.min(noise.length, (bytes - at) >> 1)))
  return pointer
}
const zeros = (bytes: number, value = 0): bigint => {
  const pointer = driver.allocate(bytes)
  driver.write(pointer, new Int32Array(bytes >> 2).fill(value))
  return pointer
}
const pointers = new Map<string, bigint>()
const shapesOf = weightShapes(config)
const elements = (name: string): number => {
  const { heads, kvHeads, headDim, hiddenSize, intermediateSize } = config
  if (name.endsWith('qkv.weight')) return (heads + 2 * kvHeads) * headDim * hiddenSize
  if (name.endsWith('qkv.bias')) return (heads + 2 * kvHeads) * headDim
  if (name.endsWith('self_attn.o.weight')) return heads * headDim * hiddenSize
  if (name.startsWith('fused')) return hiddenSize * intermediateSize
  if (name.startsWith('prompt key') || name.startsWith('prompt value'))
    return prompts * kvHeads * time * headDim
  if (name.startsWith('key') || name.startsWith('value')) return samples * kvHeads * window * headDim
  return (shapesOf.get(name) ?? []).reduce((product, n) => product * n, 1)
}
const lines = 512 * samples
const addressOf = (name: string): bigint => {
  const known = pointers.get(name)
  if (known !== undefined) return known
  const buffer = step.buffers.get(name)
  let made: bigint
  if (name === 'logits') made = filled(4 * samples * config.vocabSize)
  else if (buffer !== undefined) made = zeros(8 * buffer.dims.reduce((product, n) => product * n, 1))
  else if (['uniforms', 'drawn', 'logprobs', 'samplingLogprobs'].includes(name)) made = zeros(4 * lines)
  else if (name === 'cos' || name === 'sin') made = zeros(4 * 4096 * (config.headDim / 2), 0x3f000000)
  else if (name === 'at') made = zeros(4, own)
  else if (name === 'promptOf') {
    made = zeros(4 * samples)
    driver.write(
      made,
      Int32Array.from({ length: samples }, (_, s) => Math.floor((s * prompts) / samples)),
    )
  } else if (name === 'promptLengths') made = zeros(4 * prompts, time - 14)
  else if (name === 'firstSamples') {
    made = zeros(4 * (prompts + 1))
    driver.write(
      made,
      Int32Array.from({ length: prompts + 1 }, (_, p) => Math.ceil((p * samples) / prompts)),
    )
  } else if (name.endsWith('norm.weight')) made = zeros(4 * elements(name), 0x3f800000)
  else made = filled(2 * elements(name))
  pointers.set(name, made)
  return made
}
const launches = step.launches({ temperature: 1, topP: Number(values['top-p']) }, addressOf)

/** Milliseconds of the launches, one after another, with the last of several runs. */
const timed = (some: readonly Launch[], times: number): number => {
  const recorded = driver.record(some)
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < 4; round++) {
    const start = performance.now()
    recorded.run(times)
    recorded.wait()
    best = Math.min(best, (performance.now() - start) / times)
  }
  recorded.dispose()
  return best
}
const kinds = new Map<string, Launch[]>()
for (const launch of launches) {
  const key = `${launch.kernel} ${launch.grid.join('x')}`
  kinds.set(key, [...(kinds.get(key) ?? []), launch])
}
for (const [key, some] of kinds) {
  // It counts the step, and many steps would leave the window.
  if (key.startsWith('embed')) continue
  if (values.only && !key.includes(values.only)) continue
  const ms = timed(some.length === 1 ? Array<Launch>(28).fill(some[0]) : some, 20)
  console.log(
    `${key.padEnd(34)} ${((1000 * ms) / Math.max(some.length, some.length === 1 ? 28 : 1)).toFixed(2)} us each`,
  )
}
if (!values.only) {
  const without = launches.filter(({ kernel }) => kernel !== 'embed')
  console.log(`step without embed: ${timed(without, 50).toFixed(3)} ms, ${launches.length} launches`)
}
