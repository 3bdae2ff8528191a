/** Graphs by our own kernels, operator by operator, held to ONNX Runtime on the CPU. */
import { describe, expect, it } from 'vitest'
import { random } from '../../../random.ts'
import { f32ToF16 } from '../../checkpoint/halves.ts'
import { emit } from '../../graph/emit.ts'
import * as ops from '../../graph/ops.ts'
import { constant, type DType, input, type Tensor } from '../../graph/tensor.ts'
import { type HostArray, hostTensor, nativeProgram } from '../native.ts'
import { openGraphs } from './program.ts'
import { gpuHere } from './testing.ts'

const gpu = await gpuHere()
const config = { heads: 2, kvHeads: 1, headDim: 16, vocabSize: 64 }

interface Given {
  dtype?: DType
  dims: readonly number[]
  /** Whole numbers below this; else random ones about 0. */
  below?: number
}

function arrayOf({ dtype = 'float32', dims, below }: Given, key: string): HostArray {
  const stream = random('program', key)
  const size = dims.reduce((product, n) => product * n, 1)
  const data = Float32Array.from({ length: size }, () =>
    below === undefined ? stream.normal() : Math.floor(stream.next() * below),
  )
  if (dtype === 'int32') return Int32Array.from(data)
  if (dtype === 'int64') return BigInt64Array.from([...data], BigInt)
  if (dtype === 'float32') return data
  const halves = new Uint16Array(size)
  f32ToF16(data, halves)
  return halves
}

const half = (x: Tensor) => ops.cast(x, 'float16')
const single = (x: Tensor) => ops.cast(x, 'float32')

const cases: Record<
  string,
  { given: Record<string, Given>; make: (given: Record<string, Tensor>) => Tensor[] }
> = {
  'sums of the same shape, of a row and of a column': {
    given: { a: { dims: [7, 5] }, b: { dims: [7, 5] }, row: { dims: [5] }, column: { dims: [7, 1] } },
    make: ({ a, b, row, column }) => [ops.add(a, b), ops.add(a, row), ops.mul(a, column), ops.sub(a, 2.5)],
  },
  'halves and single precision': {
    given: { a: { dims: [6, 10] }, row: { dims: [10] } },
    make: ({ a, row }) => {
      const sum = ops.add(half(a), half(row))
      return [sum, single(sum), ops.neg(sum), ops.mul(single(ops.neg(sum)), a)]
    },
  },
  'an odd number of halves': {
    given: { a: { dims: [3, 5] } },
    make: ({ a }) => [half(a)],
  },
  'what a loss is made of': {
    given: { a: { dims: [9] }, b: { dims: [9] }, low: { dims: [] }, high: { dims: [] } },
    make: ({ a, b, low, high }) => {
      const ratio = ops.exp(ops.sub(a, b))
      const clipped = ops.clip(ratio, ops.mul(low, 0), ops.add(ops.mul(high, high), 0.5))
      const least = ops.minimum(ops.mul(ratio, a), ops.mul(clipped, a))
      const first = ops.lessOrEqual(ratio, clipped)
      return [ops.neg(ops.sumAll(least)), ops.where(first, a, constant(0)), ops.where(first, constant(0), b)]
    },
  },
  'rows that are taken': {
    given: { table: { dims: [11, 6] }, at: { dtype: 'int32', dims: [2, 5], below: 11 } },
    make: ({ table, at }) => [ops.gather(table, at), ops.gather(half(table), at)],
  },
  'rows that are added up': {
    given: {
      table: { dims: [11, 6] },
      at: { dtype: 'int32', dims: [20], below: 11 },
      updates: { dims: [20, 6] },
    },
    make: ({ table, at, updates }) => [ops.scatterAddRows(ops.zerosLike(table), at, updates)],
  },
  'parts and wholes': {
    given: { a: { dims: [12, 8] }, n: { dtype: 'int32', dims: [12], below: 9 } },
    make: ({ a, n }) => {
      const rows = ops.parts(a, 0, 4)
      const halves = ops.parts(half(a), 0, 4)
      const [left, right] = ops.splitLast(half(a), [2, 6])
      return [
        rows[1],
        ops.parts(n, 0, 3)[2],
        ops.concat([rows[3], rows[0]], 0, 6),
        ops.concat([halves[2], halves[0], halves[0]], 0, 9),
        left,
        right,
      ]
    },
  },
  'heads by themselves': {
    given: { a: { dims: [2, 5, 12] } },
    make: ({ a }) => [
      ops.transpose(ops.reshape(half(a), [2, 5, 3, 4]), [0, 2, 1, 3]),
      ops.transpose(ops.reshape(a, [2, 5, 3, 4]), [0, 2, 1, 3]),
    ],
  },
  'sums over the last axis': {
    given: { a: { dims: [7, 300] } },
    make: ({ a }) => [ops.reduceSum(a, [-1]), ops.reduceMean(a, [-1]), ops.reduceSum(a, [-1], false)],
  },
  norms: {
    given: { x: { dims: [5, 700] }, weight: { dims: [700] } },
    make: ({ x, weight }) => [ops.rmsNorm(x, weight, 1e-6)],
  },
  'rotary positions': {
    given: {
      x: { dims: [2, 5, 48] },
      at: { dtype: 'int64', dims: [2, 5], below: 9 },
      cos: { dims: [9, 8] },
      sin: { dims: [9, 8] },
    },
    make: ({ x, at, cos, sin }) => [ops.rotary(half(x), at, half(cos), half(sin))],
  },
  products: {
    given: {
      x: { dims: [3, 5, 24] },
      wide: { dims: [32, 24] },
      thin: { dims: [24, 4] },
      low: { dims: [15, 4] },
    },
    make: ({ x, wide, thin, low }) => [
      ops.matmul(half(x), half(wide), { transposeB: true, scale: 0.5 }),
      ops.matmul(half(x), half(thin)),
      ops.matmul(ops.reshape(half(x), [15, 24]), half(low), { transposeA: true }),
    ],
  },
  'a product and what is added': {
    given: { w: { dims: [32, 24] }, b: { dims: [32, 4] }, a: { dims: [4, 24] } },
    make: ({ w, b, a }) => [ops.addProduct(half(w), half(b), half(a), 2)],
  },
}

describe.skipIf(gpu === null)('our own kernels', () => {
  const graphs = openGraphs(gpu!, config)

  it.each(Object.keys(cases))('compute %s as ONNX Runtime does', async (name) => {
    const { given, make } = cases[name]
    const inputs = Object.fromEntries(
      Object.entries(given).map(([key, { dtype, dims }]) => [key, input(key, dims, dtype)]),
    )
    const made = make(inputs).map((tensor) => (tensor.dtype === 'float16' ? single(tensor) : tensor))
    const outputs = Object.fromEntries(made.map((tensor, i) => [`out ${i}`, tensor]))
    const bytes = emit('case', outputs)
    const arrays = Object.fromEntries(Object.entries(given).map(([key, one]) => [key, arrayOf(one, key)]))
    const host = () =>
      Object.fromEntries(
        Object.entries(given).map(([key, { dtype = 'float32', dims }]) => [
          key,
          hostTensor(dtype as 'float32', arrays[key], dims),
        ]),
      )
    const run = async (program: Awaited<ReturnType<typeof nativeProgram>>) => {
      const found = made.map(({ shape, dtype }) => {
        const dims = shape.map(Number)
        const size = dims.reduce((product, n) => product * n, 1)
        const data = dtype === 'int32' ? new Int32Array(size) : new Float32Array(size)
        return hostTensor(dtype as 'float32', data, dims)
      })
      const results = Object.fromEntries(found.map((tensor, i) => [`out ${i}`, tensor]))
      const binding = program.bind([host()], results)
      // Twice: buffers are used again.
      await binding.run()
      await binding.run()
      binding.dispose()
      return found.map(({ data }) => Array.from(data as Float32Array))
    }
    const wanted = await run(await nativeProgram(bytes, { provider: 'cpu' }))
    const found = await run(graphs.program(bytes))
    // Halves are rounded at other places.
    const within = make.toString().includes('half(') ? 4e-3 : 2e-5
    found.forEach((values, i) => {
      values.forEach((value, at) => {
        expect(Math.abs(value - wanted[i][at]), `output ${i} at ${at}`).toBeLessThanOrEqual(
          within * Math.max(1, Math.abs(wanted[i][at])),
        )
      })
    })
  })

  it('writes over what it reads, at the end', async () => {
    const [a, b] = [input('a', [4]), input('b', [4])]
    const program = graphs.program(emit('swap', { first: ops.add(a, b), second: ops.mul(a, b) }))
    const [first, second] = [graphs.tensor('float32', [4]), graphs.tensor('float32', [4])]
    graphs.write(first, Float32Array.of(1, 2, 3, 4))
    graphs.write(second, Float32Array.of(5, 6, 7, 8))
    const binding = program.bind([{ a: first, b: second }], { first, second })
    await binding.run()
    binding.dispose()
    const [sum, product] = [new Float32Array(4), new Float32Array(4)]
    await graphs.read(first, sum)
    await graphs.read(second, product)
    expect([...sum]).toEqual([6, 8, 10, 12])
    expect([...product]).toEqual([5, 12, 21, 32])
  })

  it('refuses by name what it does not compute', async () => {
    const program = graphs.program(emit('softmax', { y: ops.softmax(input('x', [4])) }))
    const x = hostTensor('float32', new Float32Array(4), [4])
    await expect(program.bind([{ x }], { y: x }).run()).rejects.toThrow(/operator Softmax is not computed/)
  })
})
