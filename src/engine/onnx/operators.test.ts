/** Operators of our own, on the CPU: what they are given, what becomes of what they give and throw, and what they hold. */
import { createRequire } from 'node:module'
import { expect, it } from 'vitest'
import { emit } from '../graph/emit.ts'
import * as ops from '../graph/ops.ts'
import { apply, input, type Tensor } from '../graph/tensor.ts'
import { hostTensor, nativeProgram } from './native.ts'
import type { Operator, OperatorTensor } from './operators.ts'

const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi')
const OURS = 'message-board'
const provider = 'cpu'
const CPU = 'CPUExecutionProvider'

const count = ({ dims }: OperatorTensor) => dims.reduce((product, n) => product * n, 1)
const read = (tensor: OperatorTensor, type: string): number[] => {
  if (count(tensor) === 0) return []
  return Array.from(koffi.decode(tensor.pointer, type, count(tensor)) as ArrayLike<number>)
}
const write = (tensor: OperatorTensor, type: string, values: readonly number[]) => {
  if (values.length > 0) koffi.encode(tensor.pointer, koffi.array(type, values.length), values)
}
const numbers = (count: number) => Float32Array.from({ length: count }, (_, i) => Math.sin(i))

/** factor * x + shift, and how many rows there are. */
const scaled: Operator = {
  name: 'Scaled',
  inputs: ['float32', 'int32'],
  outputs: ['float32', 'int32'],
  provider: CPU,
  attributes: { factor: 'float', shift: 'int' },
  shapes: ([x], { shift }) => {
    if (shift > 100) throw new Error(`a shift of ${shift}`)
    return [x, []]
  },
  compute({ inputs: [x, more], outputs: [y, rows], attributes: { factor, shift }, stream }) {
    expect(stream).toBe(0n)
    const [added] = read(more, 'int32_t')
    if (added < 0) throw new Error('π is not to be added')
    write(
      y,
      'float',
      read(x, 'float').map((value) => factor * value + shift + added),
    )
    write(rows, 'int32_t', [x.dims[0]])
  },
}
const scale = (x: Tensor, more: Tensor, factor: number, shift: number) =>
  apply(
    'Scaled',
    [x, more],
    [{ shape: x.shape }, { shape: [], dtype: 'int32' }],
    { factor: { float: factor }, shift },
    OURS,
  )

/** The bits of halves upside down, next to integers times two: any type in, each of two out. */
const bits: Operator = {
  name: 'Bits',
  inputs: ['any', 'int32'],
  outputs: ['float16', 'int32'],
  provider: CPU,
  shapes: (sizes) => [[...sizes[0]].reverse(), [sizes[1][0] * 2]],
  compute({ inputs: [halves, integers], outputs: [turned, twice] }) {
    write(turned, 'uint16_t', read(halves, 'uint16_t').reverse())
    const values = read(integers, 'int32_t')
    write(twice, 'int32_t', [...values, ...values])
  },
}

const x = input('x', ['rows', 3])
const more = input('more', [], 'int32')

async function scaling(factor = 2, shift = 0) {
  const [y, rows] = scale(ops.neg(x), more, factor, shift)
  const bytes = emit('test', { y: ops.neg(y), rows })
  const program = await nativeProgram(bytes, { provider, operators: [bits, scaled], threads: 2 })
  const run = async (rows: number, added: number) => {
    const [found, counted] = [new Float32Array(rows * 3), new Int32Array(1)]
    const given = {
      x: hostTensor('float32', numbers(rows * 3), [rows, 3]),
      more: hostTensor('int32', Int32Array.of(added), []),
    }
    const results = {
      y: hostTensor('float32', found, [rows, 3]),
      rows: hostTensor('int32', counted, []),
    }
    await program.bind([given], results).run()
    return { found, counted: counted[0] }
  }
  return { program, run }
}

it('computes between others, with attributes, in sizes that change from run to run', async () => {
  for (const [factor, shift] of [
    [2.5, -7],
    [0, 0],
  ]) {
    const { program, run } = await scaling(factor, shift)
    for (const rows of [4, 1, 0, 9]) {
      const { found, counted } = await run(rows, 3)
      expect(counted).toBe(rows)
      numbers(rows * 3).forEach((value, i) => {
        expect(found[i]).toBeCloseTo(factor * value - shift - 3, 5)
      })
    }
    program.release()
  }
})

it('is given halves and integers as they lie, where any type may come', async () => {
  const halves = input('halves', ['a', 'b', 2], 'float16')
  const integers = input('integers', ['n'], 'int32')
  const [turned, twice] = apply(
    'Bits',
    [halves, integers],
    [
      { shape: [2, 'b', 'a'], dtype: 'float16' },
      { shape: ['2*n'], dtype: 'int32' },
    ],
    {},
    OURS,
  )
  const program = await nativeProgram(emit('bits', { turned, twice }), { provider, operators: [bits] })
  const [found, doubled] = [new Uint16Array(6), new Int32Array(4)]
  await program
    .bind(
      [
        {
          halves: hostTensor('float16', Uint16Array.of(1, 2, 3, 4, 5, 65535), [1, 3, 2]),
          integers: hostTensor('int32', Int32Array.of(-5, 2 ** 30), [2]),
        },
      ],
      {
        turned: hostTensor('float16', found, [2, 3, 1]),
        twice: hostTensor('int32', doubled, [4]),
      },
    )
    .run()
  expect([...found]).toEqual([65535, 5, 4, 3, 2, 1])
  expect([...doubled]).toEqual([-5, 2 ** 30, -5, 2 ** 30])
  program.release()
})

it('ends a run with what an operator throws, at once, and can be run again', async () => {
  const { program, run } = await scaling()
  await expect(run(2, -1)).rejects.toThrow('Scaled: π is not to be added')
  await expect(run(2, -1)).rejects.toMatchObject({ cause: new Error('π is not to be added') })
  expect((await run(2, 1)).counted).toBe(2)
  program.release()
  const shifted = await scaling(1, 101)
  await expect(shifted.run(2, 1)).rejects.toThrow('Scaled: a shift of 101')
  shifted.program.release()

  const calls: string[] = []
  const failing = (name: string, sizes: readonly (readonly number[])[]): Operator => ({
    name,
    inputs: ['float32'],
    outputs: ['float32'],
    provider: CPU,
    shapes: () => sizes,
    compute() {
      calls.push(name)
      throw 'not an error'
    },
  })
  const operators = [failing('First', [[2]]), failing('Second', [[2]]), failing('Odd', [])]
  const chain = async (...names: string[]) => {
    const z = names.reduce(
      (t, name) => ops.neg(apply(name, [t], [{ shape: ['n'] }], {}, OURS)[0]),
      input('z', ['n']),
    )
    const program = await nativeProgram(emit('chain', { z2: z }), { provider, operators })
    const tensor = () => hostTensor('float32', numbers(2), [2])
    await program
      .bind([{ z: tensor() }], { z2: tensor() })
      .run()
      .finally(() => program.release())
  }
  await expect(chain('First', 'Second')).rejects.toThrow('First: not an error')
  expect(calls).toEqual(['First'])
  await expect(chain('Odd')).rejects.toThrow('Odd: sizes of 0 outputs, where it has 1')
})

it('refuses a node without its attributes, and types and operators that there are not', async () => {
  const open = (y: Tensor) => nativeProgram(emit('wrong', { y }), { provider, operators: [scaled] })
  const output = { shape: x.shape }
  const rows = { shape: [], dtype: 'int32' } as const
  await expect(open(apply('Scaled', [x, more], [output, rows], { shift: 1 }, OURS)[0])).rejects.toThrow(
    /Scaled: .*factor/,
  )
  const wrong = scale(input('x', ['rows', 3], 'float16'), more, 1, 1)[0]
  await expect(open(wrong)).rejects.toThrow(/Scaled/)
  await expect(open(apply('Missing', [x], [output], {}, OURS)[0])).rejects.toThrow(/Missing/)
  const { program, run } = await scaling()
  expect((await run(1, 1)).counted).toBe(1)
  program.release()
})

it('shares memory of an input and an output where it may', async () => {
  const shared: boolean[] = []
  const next = (name: string, inPlace: Operator['inPlace']): Operator => ({
    name,
    inputs: ['float32', 'float32'],
    outputs: ['float32'],
    provider: CPU,
    inPlace,
    shapes: ([, b]) => [b],
    compute({ inputs: [a, b], outputs: [y] }) {
      shared.push(b.pointer === y.pointer)
      const left = read(a, 'float')
      const right = read(b, 'float')
      write(
        y,
        'float',
        right.map((value, i) => value - left[i]),
      )
    },
  })
  const z = input('z', ['n'])
  for (const [inPlace, expected] of [
    [[[1, 0]], true],
    [undefined, false],
  ] as const) {
    const [y] = apply('Less', [z, ops.exp(z)], [{ shape: z.shape }], {}, OURS)
    const bytes = emit('shared', { y: ops.neg(y) }, { namesSizes: true })
    const program = await nativeProgram(bytes, { provider, operators: [next('Less', inPlace)] })
    const found = new Float32Array(5)
    await program
      .bind([{ z: hostTensor('float32', numbers(5), [5]) }], { y: hostTensor('float32', found, [5]) })
      .run()
    numbers(5).forEach((value, i) => {
      expect(found[i]).toBeCloseTo(value - Math.exp(value), 5)
    })
    expect(shared.pop()).toBe(expected)
    program.release()
  }
})

it('holds nothing of sessions that are gone, and no more functions for many nodes', async () => {
  const deep = async (nodes: number) => {
    let y = x
    for (let i = 0; i < nodes; i++) y = scale(y, more, 1, i % 3)[0]
    return nativeProgram(emit('deep', { y }, { namesSizes: true }), { provider, operators: [scaled] })
  }
  ;(await deep(1)).release()
  const { callbacks } = koffi.stats()
  for (let turn = 0; turn < 20; turn++) (await deep(3)).release()
  const program = await deep(500)
  const found = new Float32Array(3)
  const binding = program.bind(
    [
      {
        x: hostTensor('float32', new Float32Array(3), [1, 3]),
        more: hostTensor('int32', Int32Array.of(1), []),
      },
    ],
    { y: hostTensor('float32', found, [1, 3]) },
  )
  await binding.run()
  expect([...found]).toEqual(Array(3).fill(999))
  program.release()
  expect(koffi.stats().callbacks).toBe(callbacks)
})

it('names the domain in graphs that use it alone', () => {
  const named = (bytes: Uint8Array) => Buffer.from(bytes).toString('latin1').split(OURS).length - 1
  // The producer's name is the same.
  expect(named(emit('without', { y: ops.neg(x) }))).toBe(1)
  expect(named(emit('with', { y: scale(x, more, 1, 1)[0] }))).toBe(3)
})
