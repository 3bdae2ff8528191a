import { describe, expect, it } from 'vitest'
import { random } from '../../../random.ts'
import type { ModelConfig } from '../../checkpoint/config.ts'
import { weightShapes } from '../../checkpoint/folder.ts'
import { f16ToF32, f32ToF16 } from '../../checkpoint/halves.ts'
import { planSteps, unfitForWebgpu } from './step.ts'
import { gpuHere } from './testing.ts'

const gpu = await gpuHere()

const llama: ModelConfig = {
  architecture: 'llama',
  vocabSize: 90,
  hiddenSize: 48,
  layers: 2,
  heads: 6,
  kvHeads: 2,
  headDim: 16,
  intermediateSize: 80,
  rmsNormEps: 1e-5,
  ropeTheta: 100,
  ropeScaling: null,
  tieEmbeddings: false,
  attentionBias: false,
  qkNorm: false,
  contextLength: 64,
  bosTokenId: null,
  eosTokenIds: [],
}
const qwen2: ModelConfig = { ...llama, architecture: 'qwen2', attentionBias: true, tieEmbeddings: true }
const qwen3: ModelConfig = { ...llama, architecture: 'qwen3', qkNorm: true, tieEmbeddings: true }

describe('which models fit WebGPU', () => {
  it.each([
    [llama, null],
    [{ ...llama, vocabSize: 50_257 }, /vocabulary of 50257: an odd number/],
    [{ ...llama, headDim: 24 }, /heads of 24 elements: no multiple of 16/],
    [{ ...llama, headDim: 320 }, /heads of 320 elements: more than 256/],
    [{ ...llama, heads: 34 }, /17 query heads to a key-value head/],
    [{ ...llama, intermediateSize: 88 }, /a width of 88/],
  ])('says why one does not', (config, why) => {
    if (why === null) expect(unfitForWebgpu(config)).toBeNull()
    else expect(unfitForWebgpu(config)).toMatch(why)
  })
})

const angleOf = ({ ropeTheta, headDim }: ModelConfig, position: number, i: number) =>
  position * ropeTheta ** ((-2 * i) / headDim)

/** The model as it is defined, in double precision: logits after each token, and each layer's keys and values by head. */
function compute(config: ModelConfig, weights: ReadonlyMap<string, Float32Array>, tokens: readonly number[]) {
  const { hiddenSize, layers, heads, kvHeads, headDim, intermediateSize, vocabSize, rmsNormEps } = config
  const weight = (name: string) => weights.get(name) as Float32Array
  const linear = (x: readonly number[], name: string, outputs: number) => {
    const [w, bias] = [weight(`${name}.weight`), weights.get(`${name}.bias`)]
    return Array.from({ length: outputs }, (_, o) =>
      x.reduce((sum, value, i) => sum + value * w[o * x.length + i], bias ? bias[o] : 0),
    )
  }
  const norm = (x: readonly number[], name: string) => {
    const inverse = (x.reduce((sum, value) => sum + value * value, 0) / x.length + rmsNormEps) ** -0.5
    return x.map((value, i) => value * inverse * weight(`${name}.weight`)[i])
  }
  const turn = (x: readonly number[], position: number) =>
    x.map((value, d) => {
      const half = headDim / 2
      const angle = angleOf(config, position, d % half)
      return d < half
        ? value * Math.cos(angle) - x[d + half] * Math.sin(angle)
        : value * Math.cos(angle) + x[d - half] * Math.sin(angle)
    })
  const split = (x: readonly number[], count: number) =>
    Array.from({ length: count }, (_, head) => x.slice(head * headDim, (head + 1) * headDim))
  let streams = tokens.map((token) => [
    ...weight('model.embed_tokens.weight').subarray(token * hiddenSize, (token + 1) * hiddenSize),
  ])
  const caches = Array.from({ length: layers }, (_, layer) => {
    const prefix = `model.layers.${layer}`
    const inputs = streams.map((x) => norm(x, `${prefix}.input_layernorm`))
    const headsOf = (kind: 'q' | 'k' | 'v', count: number) =>
      inputs.map((x, position) =>
        split(linear(x, `${prefix}.self_attn.${kind}_proj`, count * headDim), count).map((head) => {
          if (kind === 'v') return head
          return turn(config.qkNorm ? norm(head, `${prefix}.self_attn.${kind}_norm`) : head, position)
        }),
      )
    const [q, keys, values] = [headsOf('q', heads), headsOf('k', kvHeads), headsOf('v', kvHeads)]
    streams = streams.map((x, position) => {
      const attended = q[position].flatMap((query, head) => {
        const kv = Math.floor((head * kvHeads) / heads)
        const powers = keys
          .slice(0, position + 1)
          .map((key) => Math.exp(query.reduce((sum, v, d) => sum + v * key[kv][d], 0) / Math.sqrt(headDim)))
        const total = powers.reduce((a, b) => a + b)
        return query.map((_, d) => powers.reduce((sum, p, t) => sum + (p / total) * values[t][kv][d], 0))
      })
      const o = linear(attended, `${prefix}.self_attn.o_proj`, hiddenSize)
      const between = x.map((value, i) => value + o[i])
      const input = norm(between, `${prefix}.post_attention_layernorm`)
      const up = linear(input, `${prefix}.mlp.up_proj`, intermediateSize)
      const gated = linear(input, `${prefix}.mlp.gate_proj`, intermediateSize).map(
        (gate, i) => (gate / (1 + Math.exp(-gate))) * up[i],
      )
      const down = linear(gated, `${prefix}.mlp.down_proj`, hiddenSize)
      return between.map((value, i) => value + down[i])
    })
    return { keys, values }
  })
  const head = config.tieEmbeddings ? 'model.embed_tokens' : 'lm_head'
  return { logits: streams.map((x) => linear(norm(x, 'model.norm'), head, vocabSize)), caches }
}

describe.skipIf(gpu === null)('steps of sampling on WebGPU', () => {
  const { buffer, compile, done, prepare, read, traits, write } = gpu!
  // Small workgroups' memory makes smaller kernels, which software compiles faster.
  const small = { ...traits, workgroupBytes: 4096 }

  it.each([
    { name: 'llama', config: llama, topP: 1, shares: 1 },
    { name: 'qwen2', config: qwen2, topP: 0.8, shares: 1 },
    { name: 'qwen3', config: qwen3, topP: 1, shares: 2 },
  ])('draw and score as $name is defined, topP $topP, $shares shares', async ({ config, topP, shares }) => {
    const { hiddenSize, layers, kvHeads, headDim, vocabSize, contextLength } = config
    const stream = random('webgpu step', config.architecture)
    const halves = (values: Float32Array) => {
      const bits = new Uint16Array(values.length)
      f32ToF16(values, bits)
      return bits
    }
    const weights = new Map<string, Float32Array>()
    for (const [name, shape] of weightShapes(config)) {
      const size = shape.reduce((a, b) => a * b)
      const [scale, mean] = /norm/.test(name) ? [0.3, 1] : [1.4 * hiddenSize ** -0.5, 0]
      const values = Float32Array.from({ length: size }, () => mean + scale * stream.normal())
      // Norms are in single precision.
      if (shape.length > 1 || name.endsWith('bias')) f16ToF32(halves(values), values)
      weights.set(name, values)
    }
    const [temperature, steps, window] = [0.9, 6, 8]
    // More positions than a tile of attention has.
    const prompts = [5, 1, 149].map((length) => Array.from({ length }, () => stream.int(vocabSize)))
    const promptOf = [0, 0, 0, 1, 2, 2]
    const [samples, time] = [promptOf.length, 160]
    const tensors = new Map<string, GPUBuffer>()
    const put = (name: string, data: Uint16Array | Float32Array | Int32Array) => {
      const held = buffer(data.byteLength)
      write(held, data)
      tensors.set(name, held)
    }
    const weight = (name: string) => weights.get(name) as Float32Array
    const joined = (names: readonly string[]) => Float32Array.from(names.flatMap((name) => [...weight(name)]))
    for (const name of ['model.embed_tokens.weight', 'lm_head.weight'])
      if (weights.has(name)) put(name, halves(weight(name)))
    for (const [name, values] of weights) if (/norm/.test(name)) put(name, values)
    for (let layer = 0; layer < layers; layer++) {
      const prefix = `model.layers.${layer}`
      const qkv = (part: string) => ['q', 'k', 'v'].map((kind) => `${prefix}.self_attn.${kind}_proj.${part}`)
      put(`fused ${prefix}.self_attn.qkv.weight`, halves(joined(qkv('weight'))))
      if (config.attentionBias) put(`fused ${prefix}.self_attn.qkv.bias`, halves(joined(qkv('bias'))))
      for (const name of ['self_attn.o', 'mlp.gate', 'mlp.up', 'mlp.down'])
        put(`fused ${prefix}.${name}.weight`, halves(weight(`${prefix}.${name}_proj.weight`)))
    }
    const angles = (of: (angle: number) => number) =>
      Float32Array.from({ length: (contextLength + time) * (headDim / 2) }, (_, at) =>
        of(angleOf(config, Math.floor(at / (headDim / 2)), at % (headDim / 2))),
      )
    put('cos', angles(Math.cos))
    put('sin', angles(Math.sin))
    const begun = prompts.map((prompt) => compute(config, weights, prompt))
    put('logits', Float32Array.from(promptOf.flatMap((prompt) => begun[prompt].logits.at(-1) as number[])))
    for (let layer = 0; layer < layers; layer++) {
      for (const [name, kind] of [
        ['key', 'keys'],
        ['value', 'values'],
      ] as const) {
        const cache = new Float32Array(prompts.length * kvHeads * time * headDim)
        for (const [p, { caches }] of begun.entries())
          for (const [position, heads] of caches[layer][kind].entries())
            for (const [head, row] of heads.entries())
              cache.set(row, ((p * kvHeads + head) * time + position) * headDim)
        put(`prompt ${name}.${layer}`, halves(cache))
        put(`${name}.${layer}`, new Uint16Array(samples * kvHeads * window * headDim))
      }
    }
    put('at', Int32Array.of(0))
    put('promptOf', Int32Array.from(promptOf))
    put(
      'promptLengths',
      Int32Array.from(prompts, (prompt) => prompt.length),
    )
    put(
      'uniforms',
      Float32Array.from({ length: steps * samples }, () => stream.next()),
    )
    for (const name of ['drawn', 'logprobs', 'samplingLogprobs']) put(name, new Int32Array(steps * samples))
    const sizes = { samples, prompts: prompts.length, time, window }
    const { buffers, dispatches } = planSteps(config, sizes, small, shares)
    for (const [name, { dims }] of buffers) put(name, new Float32Array(dims.reduce((a, b) => a * b)))
    const planned = dispatches({ temperature, topP }, (name) => {
      const found = tensors.get(name)
      if (found === undefined) throw new Error(`there is no ${name}`)
      return found
    })
    await compile(planned.map(({ code }) => code))
    const prepared = prepare(planned)
    prepared.run(2)
    prepared.run(steps - 2)
    const drawn = new Int32Array(steps * samples)
    const [logprobs, sampling] = [new Float32Array(steps * samples), new Float32Array(steps * samples)]
    await read(tensors.get('drawn') as GPUBuffer, drawn)
    await read(tensors.get('logprobs') as GPUBuffer, logprobs)
    await read(tensors.get('samplingLogprobs') as GPUBuffer, sampling)
    await done()
    prepared.dispose()

    let [worst, least] = [0, 0]
    for (const [sample, p] of promptOf.entries()) {
      const tokens = Array.from({ length: steps }, (_, step) => drawn[step * samples + sample])
      const { logits } = compute(config, weights, [...prompts[p], ...tokens])
      for (const [step, token] of tokens.entries()) {
        const powers = logits[prompts[p].length - 1 + step].map((logit) => Math.exp(logit / temperature))
        const total = powers.reduce((a, b) => a + b)
        const exact = Math.log(powers[token] / total)
        const found = logprobs[step * samples + sample]
        worst = Math.max(worst, Math.abs(found - exact))
        const more = sampling[step * samples + sample] - found
        expect(more).toBeGreaterThan(-1e-6)
        expect(more).toBeLessThan(-Math.log(topP) + 1e-6)
        least = Math.min(least, exact)
      }
    }
    expect(worst).toBeLessThan(2e-2)
    // Tokens are told apart by far more than that.
    expect(least).toBeLessThan(-2)
  })
})
