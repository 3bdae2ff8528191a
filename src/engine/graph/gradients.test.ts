import { describe, expect, it } from 'vitest'
import { random } from '../../random.ts'
import { compile, floatData, floats, int64s, type Value, type Values } from '../onnx/session.ts'
import { emit } from './emit.ts'
import { differentiable, gradients } from './gradients.ts'
import * as ops from './ops.ts'
import { adaptedProduct, blockedAttention, chunkedLogprobs, widenedProduct } from './recompute.ts'
import { constant, differentiatedAs, input, type Tensor } from './tensor.ts'

/** A program of float inputs to check, with the values to check it at. */
interface Case {
  /** The operators that its gradient goes through. */
  covers: string[]
  inputs: Record<string, number[]>
  /** Integer inputs, not differentiated. */
  indices?: Record<string, number[]>
  build(t: Record<string, Tensor>): Tensor
  /** Values are drawn from +-[near, near + 1], to stay away from a kink at 0. */
  near?: number
}

const cases: Record<string, Case> = {
  'sums and products of broadcast operands': {
    covers: ['Add', 'Sub', 'Mul', 'Div'],
    inputs: { a: [3, 4], b: [4], c: [3, 1], d: [] },
    near: 0.5,
    build: ({ a, b, c, d }) => ops.div(ops.mul(ops.add(a, b), ops.sub(c, d)), b),
  },
  'elementwise functions': {
    covers: ['Neg', 'Exp', 'Sigmoid', 'QuickGelu'],
    inputs: { a: [2, 5] },
    build: ({ a }) => ops.add(ops.silu(a), ops.mul(ops.exp(ops.neg(a)), ops.sigmoid(a))),
  },
  'minimum of two': {
    covers: ['Min'],
    inputs: { a: [4, 6], b: [6] },
    near: 0.2,
    build: ({ a, b }) => ops.minimum(ops.mul(a, 2), ops.sub(b, 0.1)),
  },
  'clip on both sides': {
    covers: ['Clip'],
    inputs: { a: [30] },
    near: 0.3,
    build: ({ a }) => {
      // Each bound clips half the values, and none lies near it.
      const low = ops.clip(a, constant(-0.1), constant(1.5))
      return ops.mul(ops.add(low, ops.clip(ops.mul(a, 0.5), constant(-1.5), constant(0.05))), a)
    },
  },
  'choice by a condition': {
    covers: ['Where'],
    inputs: { a: [3, 4], b: [4] },
    near: 0.2,
    build: ({ a, b }) => ops.where(ops.lessOrEqual(a, constant(0)), ops.mul(a, b), b),
  },
  'sums over axes, kept and dropped': {
    covers: ['ReduceSum', 'Reshape'],
    inputs: { a: [2, 3, 4] },
    build: ({ a }) =>
      ops.mul(ops.reshape(ops.reduceSum(ops.mul(a, a), [1]), [2, 4]), ops.reduceSum(a, [0, 1], false)),
  },
  softmax: {
    covers: ['Softmax'],
    inputs: { a: [3, 5] },
    build: ({ a }) => ops.softmax(ops.mul(a, 2)),
  },
  'log-softmax and a pick': {
    covers: ['LogSoftmax', 'GatherElements'],
    inputs: { a: [4, 5] },
    indices: { at: [4] },
    build: ({ a, at }) => ops.pick(ops.logSoftmax(ops.mul(a, 2)), at),
  },
  transpose: {
    covers: ['Transpose'],
    inputs: { a: [2, 3, 4], b: [4, 2, 3] },
    build: ({ a, b }) => ops.mul(ops.transpose(a, [2, 0, 1]), b),
  },
  'products of matrices': {
    covers: ['FusedMatMul'],
    inputs: { a: [3, 4], b: [5, 4], c: [5, 2] },
    build: ({ a, b, c }) => ops.matmul(ops.matmul(a, b, { transposeB: true, scale: 0.7 }), c),
  },
  'products in a batch': {
    covers: ['FusedMatMul'],
    inputs: { a: [2, 3, 3, 4], b: [2, 3, 5, 4], c: [2, 3, 5, 2] },
    build: ({ a, b, c }) => ops.matmul(ops.matmul(a, b, { transposeB: true, scale: 0.7 }), c),
  },
  'one matrix under a batch': {
    covers: ['FusedMatMul'],
    inputs: { a: [2, 3, 4], b: [5, 4], c: [5, 2] },
    build: ({ a, b, c }) => ops.matmul(ops.matmul(a, b, { transposeB: true, scale: 0.7 }), c),
  },
  'rows of a table, some taken twice': {
    covers: ['Gather'],
    inputs: { a: [4, 3] },
    indices: { at: [2, 4] },
    build: ({ a, at }) => ops.gather(ops.mul(a, a), at),
  },
  'root-mean-square norm': {
    covers: ['SimplifiedLayerNormalization'],
    inputs: { a: [2, 3, 16], w: [16] },
    build: ({ a, w }) => ops.rmsNorm(a, w, 1e-5),
  },
  'rotary positions': {
    covers: ['RotaryEmbedding'],
    inputs: { a: [2, 4, 32] },
    indices: { at: [2, 4] },
    build: ({ a, at }) => {
      const angles = Array.from({ length: 4 * 8 }, (_, i) => 0.3 * i)
      const table = (f: (angle: number) => number) => ops.reshape(constant(angles.map(f)), [4, 8])
      return ops.rotary(a, at, table(Math.cos), table(Math.sin))
    },
  },
  'attention by blocks, one head a key and two': {
    covers: [],
    inputs: { q1: [2, 2, 1, 6, 4], q2: [2, 1, 2, 6, 4], k1: [2, 2, 6, 4], k2: [2, 1, 6, 4], v: [2, 2, 6, 2] },
    build: ({ q1, q2, k1, k2, v }) => {
      const masks = [2, 4, 6].map((seen) => {
        const rows = [seen - 2, seen - 1].flatMap((row) =>
          Array.from({ length: seen }, (_, column) => (column <= row && column !== 1 ? 0 : -1e9)),
        )
        return ops.reshape(constant(rows), [1, 1, 2, seen])
      })
      const one = blockedAttention(q1, k1, ops.mul(k1, k1), masks, 0.7, true)
      const two = blockedAttention(q2, k2, ops.reshape(v, [2, 1, 6, 4]), masks, 1.3)
      return ops.add(ops.reduceSum(one, [1, 4]), ops.reduceSum(two, [2, 4]))
    },
  },
  'log-probabilities of targets by chunks': {
    covers: [],
    inputs: { h: [6, 5] },
    indices: { at: [6] },
    build: ({ h, at }) => {
      const weight = ops.reshape(constant(Array.from({ length: 20 }, (_, i) => Math.sin(3 * i))), [4, 5])
      const logprobs = (transposed: Tensor | null) =>
        chunkedLogprobs(h, { weight, transposed }, at, constant(0.7), 3)
      return ops.add(logprobs(null), logprobs(ops.transpose(weight, [1, 0])))
    },
  },
  'a product with a weight in halves': {
    covers: [],
    inputs: { a: [2, 3, 5] },
    build: ({ a }) => {
      const weight = constant(
        Array.from({ length: 20 }, (_, i) => Math.sin(3 * i)),
        'float16',
      )
      return widenedProduct(a, ops.reshape(weight, [4, 5]))
    },
  },
  'a product with a weight that an adapter is folded into': {
    covers: [],
    inputs: { x: [2, 3, 5], a: [2, 5], b: [4, 2] },
    build: ({ x, a, b }) => {
      const weight = constant(Array.from({ length: 20 }, (_, i) => Math.sin(3 * i)))
      const folded = ops.add(ops.reshape(weight, [4, 5]), ops.matmul(b, a, { scale: 0.7 }))
      return adaptedProduct(x, folded, { a, b }, 0.7)
    },
  },
  'a value used twice': {
    covers: ['Add', 'Mul'],
    inputs: { a: [5] },
    build: ({ a }) => {
      const square = ops.mul(a, a)
      return ops.add(square, ops.mul(square, a))
    },
  },
}

describe.each(Object.entries(cases))('the gradient of %s', (name, test) => {
  it('agrees with finite differences along random directions', async () => {
    const draw = random('gradients', name)
    const size = (shape: number[]) => shape.reduce((product, n) => product * n, 1)
    const value = () => (draw.next() < 0.5 ? -1 : 1) * ((test.near ?? 0) + draw.next())
    const shapes = Object.entries(test.inputs)
    const at = shapes.map(([, shape]) => Float32Array.from({ length: size(shape) }, value))
    const integers: Values = Object.fromEntries(
      Object.entries(test.indices ?? {}).map(([key, shape]) => [
        key,
        int64s(
          Int32Array.from({ length: size(shape) }, () => draw.int(4)),
          shape,
        ),
      ]),
    )
    const tensors = shapes.map(([key, shape]) => input(key, shape))
    const y = test.build({
      ...Object.fromEntries(shapes.map(([key], i) => [key, tensors[i]])),
      ...Object.fromEntries(
        Object.entries(test.indices ?? {}).map(([key, shape]) => [key, input(key, shape, 'int64')]),
      ),
    })
    const weights = constant(Array.from({ length: size(y.shape as number[]) }, () => draw.normal()))
    const loss = ops.sumAll(ops.mul(y, ops.reshape(weights, y.shape)))
    const parts = gradients(loss, tensors)
    const outputs = Object.fromEntries(parts.map((part, i) => [`g${i}`, part]))
    const program = await compile(emit(name, { loss, y, ...outputs }))
    const run = (points: Float32Array[]) => {
      const feeds = shapes.map(([key, shape], i): [string, Value] => [key, floats(points[i], shape)])
      return program.run([Object.fromEntries(feeds), integers])
    }
    const weightData = weights.source.kind === 'constant' ? weights.source.data : []
    /** The loss summed in double precision: single precision would drown the difference. */
    const lossAt = async (points: Float32Array[]) => {
      const values = floatData((await run(points)).y)
      return values.reduce((sum, v, i) => sum + v * weightData[i], 0)
    }

    const found = await run(at)
    for (let trial = 0; trial < 5; trial++) {
      const direction = at.map(({ length }) => Float32Array.from({ length }, () => draw.normal()))
      const step = 4e-3
      const moved = (sign: number) =>
        at.map((values, i) => values.map((v, k) => v + sign * step * direction[i][k]))
      const numeric = ((await lossAt(moved(1))) - (await lossAt(moved(-1)))) / (2 * step)
      let analytic = 0
      let scale = 0
      direction.forEach((line, i) => {
        const gradient = floatData(found[`g${i}`])
        line.forEach((d, k) => {
          analytic += gradient[k] * d
          scale += (gradient[k] * d) ** 2
        })
      })
      expect(Math.abs(numeric - analytic)).toBeLessThan(2e-3 * (1 + Math.sqrt(scale)))
    }
    await program.release()
  })
})

describe('the table of rules', () => {
  it('is checked above as a whole', () => {
    const covered = new Set(Object.values(cases).flatMap(({ covers }) => covers))
    // Cast's is below: in halves a finite difference would drown in rounding.
    expect([...differentiable].sort()).toEqual([...covered, 'Cast'].sort())
  })

  it('casts a gradient back through halves', async () => {
    const a = input('a', [3])
    const weights = [0.5, -0.1, 3]
    const [gradient] = gradients(
      ops.sumAll(ops.mul(ops.cast(ops.cast(a, 'float16'), 'float32'), constant(weights))),
      [a],
    )
    const program = await compile(emit('cast', { gradient }))
    const { gradient: value } = await program.run([{ a: floats(Float32Array.of(1, 2, 3), [3]) }])
    expect([...floatData(value)]).toEqual([0.5, expect.closeTo(-0.1, 4), 3])
  })

  it('is passed over where several operators have a rule as a whole, which only one may give them', async () => {
    const a = input('a', [2])
    // A slice has no rule; a rule for the whole says ten times the gradient.
    const slice = ops.sliceLast(a, 0, 1, 1)
    const whole = differentiatedAs(slice, [a], (g) => [ops.mul(ops.concat([g, g], 0, 2), 10)])
    const [gradient] = gradients(ops.sumAll(whole), [a])
    const program = await compile(emit('whole', { gradient: ops.add(gradient, ops.mul(a, 0)) }))
    const { gradient: value } = await program.run([{ a: floats(Float32Array.of(1, 2), [2]) }])
    expect([...floatData(value)]).toEqual([10, 10])
    expect(() => differentiatedAs(slice, [a], () => [null])).toThrow('an operator of its own')
    expect(() => differentiatedAs(a, [a], () => [null])).toThrow('an operator of its own')
  })

  it('gives the rule of a whole the gradients of all outputs that have one', async () => {
    const a = input('a', [4])
    const [first, second, third] = ops.parts(a, 0, 4)
    const seen: number[] = []
    const whole = differentiatedAs(first, [a], (g, ...others) => {
      seen.push(...others.map((other) => (other === undefined ? 0 : 1)))
      const parts = [g, ...others].map((part) => part ?? ops.zerosLike(g))
      return [ops.concat(parts, 0, 4)]
    })
    const [gradient] = gradients(
      ops.sumAll(ops.add(ops.mul(whole, 2), ops.add(ops.mul(third, second), third))),
      [a],
    )
    const program = await compile(emit('several outputs', { gradient }))
    const { gradient: value } = await program.run([{ a: floats(Float32Array.of(1, 2, 3, 4), [4]) }])
    expect([...floatData(value)]).toEqual([2, 3, 3, 0])
    expect(seen).toEqual([1, 1, 0])
  })

  it('names an operator without a rule', () => {
    const a = input('a', [2, 2])
    expect(() => gradients(ops.sumAll(ops.sliceLast(a, 0, 1, 1)), [a])).toThrow('Slice has no rule')
  })

  it('gives zeros for what the loss does not depend on', async () => {
    const a = input('a', [2])
    const b = input('b', [3])
    const [, zero] = gradients(ops.sumAll(a), [a, b])
    const program = await compile(emit('zeros', { zero }))
    const { zero: value } = await program.run([{ b: floats(Float32Array.of(1, 2, 3), [3]) }])
    expect([...floatData(value)]).toEqual([0, 0, 0])
  })
})

describe('shapes', () => {
  it('are checked when a program is written', () => {
    expect(() => ops.add(input('a', [2, 3]), input('b', [4]))).toThrow('cannot broadcast [2, 3] with [4]')
    expect(() => ops.matmul(input('a', [2, 3]), input('b', [4, 5]))).toThrow(
      'cannot multiply [2, 3] with [4, 5]',
    )
    expect(() => ops.reshape(input('a', ['x', 4]), ['y', 'z', 2])).toThrow(
      'cannot reshape [x, 4] to [y, z, 2]',
    )
  })
})
