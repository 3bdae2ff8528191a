/** What the operators of training (`graph/fused.ts`) give, held to what is computed in double precision: for any of their kernels. */
import { expect, it } from 'vitest'
import { random } from '../../../../../random.ts'
import { f16ToF32, f32ToF16 } from '../../../../checkpoint/halves.ts'
import type { NativeType } from '../../../native.ts'

export type Numbers = readonly number[]
/** Numbers as a tensor of that type holds them. */
export interface Given {
  dtype: NativeType
  dims: Numbers
  values: Numbers
}

const stream = random('training kernels')
const count = (dims: Numbers) => dims.reduce((product, size) => product * size, 1)
const normals = (size: number, scale = 1) => Array.from({ length: size }, () => scale * stream.normal())
const single = (dims: Numbers, values = normals(count(dims))): Given => ({
  dtype: 'float32',
  dims,
  values: [...Float32Array.from(values)],
})
const half = (dims: Numbers, values = normals(count(dims))): Given => {
  const [bits, rounded] = [new Uint16Array(values.length), new Float32Array(values.length)]
  f32ToF16(Float32Array.from(values), bits)
  f16ToF32(bits, rounded)
  return { dtype: 'float16', dims, values: [...rounded] }
}

/** What an operator gives, its attributes being numbers. */
export type RunOperator = (
  name: string,
  inputs: readonly Given[],
  attributes?: Record<string, number>,
) => Promise<Numbers[]>

/**
 * `open`: for a stream of that size. `vocabularies`: sizes of rows of logits. `exact`: how far off functions such as the
 * exponential may be, as a factor.
 */
export function trainingCases(
  run: RunOperator,
  open: (hiddenSize: number) => Promise<void>,
  { vocabularies, exact = 1 }: { vocabularies: readonly number[]; exact?: number },
): void {
  const near = (found: Numbers, wanted: Numbers, relative: number, absolute = relative) => {
    expect(found).toHaveLength(wanted.length)
    found.forEach((value, i) => {
      const bound = exact * (absolute + relative * Math.abs(wanted[i]))
      if (!(Math.abs(value - wanted[i]) <= bound)) expect(`${i}: ${value}`).toBe(`${i}: ${wanted[i]}`)
    })
  }
  /** Half of a half's last bit, and somewhat more. */
  const HALF = 2 ** -11 * 1.05
  /** The derivative of `f` by each of `values`, in double precision. */
  const slopes = (values: Numbers, f: (values: Numbers) => number): Numbers =>
    values.map((value, i) => {
      const step = 1e-5 * Math.max(1, Math.abs(value))
      const at = (x: number) => f(values.map((other, j) => (j === i ? x : other)))
      return (at(value + step) - at(value - step)) / (2 * step)
    })
  const dot = (a: Numbers, b: Numbers) => a.reduce((sum, value, i) => sum + value * b[i], 0)

  const silu = (x: number) => x / (1 + Math.exp(-x))

  it('gate a product', async () => {
    for (const rows of [1, 3, 70]) {
      const dims = [rows, 1, 40]
      const gate = half(dims, [...normals(40 * rows - 4, 4), 60000, -60000, -20, 20])
      const up = half(dims)
      const [product] = await run('SwiGLU', [gate, up])
      const wanted = gate.values.map((g, i) => silu(g) * up.values[i])
      near(product, wanted, HALF, 1e-7)
    }
  })

  it('differentiate it', async () => {
    const dims = [3, 40]
    const gate = half(dims, [...normals(116, 4), 60000, -60000, -20, 20])
    const [up, gradient] = [half(dims), half(dims)]
    const found = await run('SwiGLUGradient', [gradient, gate, up])
    gradient.values.forEach((d, i) => {
      const [g, u] = [gate.values[i], up.values[i]]
      const [slope] = slopes([g], ([x]) => silu(x))
      near([found[0][i], found[1][i]], [d * u * slope, d * silu(g)], HALF, 3e-7)
    })
  })

  const epsilon = 1e-6
  const normOf = (x: Numbers, weight: Numbers): Numbers => {
    const inverse = 1 / Math.sqrt(dot(x, x) / x.length + epsilon)
    return x.map((value, i) => value * inverse * weight[i])
  }
  const rowsOf = (values: Numbers, size: number): Numbers[] =>
    Array.from({ length: values.length / size }, (_, row) => values.slice(row * size, (row + 1) * size))

  // Threads that hold nothing, whole warps of them, and several steps of each.
  it.each([8, 64, 200, 2304])('add to a stream of %i and norm it', async (size) => {
    await open(size)
    const dims = [1, 3, size]
    const [residual, part, weight] = [single(dims), half(dims), single([size])]
    const [normed, sum, inverse] = await run('AddRMSNorm', [residual, part, weight], { epsilon })
    near(
      sum,
      residual.values.map((value, i) => Math.fround(value + part.values[i])),
      0,
    )
    for (const [row, x] of rowsOf(sum, size).entries()) {
      near([inverse[row]], [1 / Math.sqrt(dot(x, x) / size + epsilon)], 1e-6)
      near(normed.slice(row * size, (row + 1) * size), normOf(x, weight.values), HALF, 1e-7)
    }
  })

  it.each([8, 64, 200, 2304])('differentiate that, a stream of %i', async (size) => {
    await open(size)
    const dims = [3, size]
    const gradients = Array.from({ length: 3 }, () => half(dims))
    const [ofSum, sum, weight] = [single(dims), single(dims), single([size])]
    const rows = rowsOf(sum.values, size)
    const inverse = single(
      [3, 1],
      rows.map((x) => 1 / Math.sqrt(dot(x, x) / size + epsilon)),
    )
    for (const [parts, beside] of [
      [1, true],
      [2, true],
      [3, true],
      [1, false],
      [3, false],
    ] as const) {
      const given = gradients.slice(0, parts)
      const [ofStream, ofPart] = beside
        ? await run(`AddRMSNormGradient${parts}`, [...given, ofSum, sum, inverse, weight])
        : await run(`RMSNormGradient${parts}`, [...given, sum, inverse, weight])
      for (const [row, x] of rows.entries()) {
        const from = row * size
        const gradient = x.map((_, i) => given.reduce((all, { values }) => all + values[from + i], 0))
        // All differences of a wide row would take long.
        const some = Math.min(size, 64)
        const wanted = slopes(x.slice(0, some), (head) =>
          dot(gradient, normOf([...head, ...x.slice(some)], weight.values)),
        ).map((value, i) => value + (beside ? ofSum.values[from + i] : 0))
        near(ofStream.slice(from, from + some), wanted, 1e-5)
      }
      near(ofPart, half(dims, [...ofStream]).values, 0)
    }
  })

  const logSumOf = (logits: Numbers, temperature: number) => {
    const most = Math.max(...logits)
    return (
      most / temperature +
      Math.log(logits.reduce((sum, logit) => sum + Math.exp((logit - most) / temperature), 0))
    )
  }

  // Rows that begin between words, shorter than one, and of more words than a block asks for at a time.
  it.each(vocabularies)('score targets among %i', async (vocabulary) => {
    const rows = 9
    const logits = half([rows, vocabulary], normals(rows * vocabulary, 6))
    const targets: Given = {
      dtype: 'int32',
      dims: [rows],
      values: Array.from({ length: rows }, (_, row) => (row * 7919) % vocabulary),
    }
    for (const temperature of [1, 0.7]) {
      const cooled = Math.fround(temperature)
      const [logprobs, logSums] = await run('TargetLogprobs', [logits, targets, single([], [temperature])])
      const wanted = rowsOf(logits.values, vocabulary).map((row) => logSumOf(row, cooled))
      near(logSums, wanted, 1e-6, 3e-6)
      near(
        logprobs,
        targets.values.map((target, row) => logits.values[row * vocabulary + target] / cooled - wanted[row]),
        1e-6,
        6e-6,
      )
      const [shares] = await run(
        'LiftedShares',
        [{ ...logits, dims: [1, rows, vocabulary] }, single([rows], wanted), single([], [temperature])],
        { lift: 8 },
      )
      const all = logits.values.map((logit, i) =>
        Math.exp(logit / cooled - wanted[Math.floor(i / vocabulary)]),
      )
      near(
        shares,
        all.map((share) => 256 * share),
        HALF + 1e-5,
        3.1e-8,
      )
    }
  })

  it('score rows of logits that halves cannot hold, where the target is not among them', async () => {
    const logits = half([2, 40], [...normals(39), Number.NEGATIVE_INFINITY, ...normals(40, 20000)])
    const targets: Given = { dtype: 'int32', dims: [2], values: [3, 5] }
    const [logprobs] = await run('TargetLogprobs', [logits, targets, single([], [1])])
    const wanted = rowsOf(logits.values, 40).map((row, i) => row[targets.values[i]] - logSumOf(row, 1))
    near(logprobs, wanted, 1e-6, 1e-5)
  })
}
