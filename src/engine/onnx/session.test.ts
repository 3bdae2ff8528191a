/** One set of cases for all that runs graphs on the CPU: the C API, the Node binding and WebAssembly. */
import { execFileSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { describe, expect, it } from 'vitest'
import { emit } from '../graph/emit.ts'
import * as ops from '../graph/ops.ts'
import { input } from '../graph/tensor.ts'
import { type Binding, boundSession } from './binding.ts'
import { directSessions } from './direct.ts'
import type { CreateSession } from './runnable.ts'
import { loadRuntime } from './runtime.ts'
import { compile, floatData, floats, int32s, int64s, scalar } from './session.ts'

const binding = createRequire(import.meta.url)('onnxruntime-node') as Binding
const runtimes: [string, CreateSession][] = [
  ['the C API', directSessions() as CreateSession],
  ['the Node binding', boundSession(binding, 'cpu')],
  ['WebAssembly', await loadRuntime('wasm')],
]
const numbers = (count: number, from = 0) =>
  Float32Array.from({ length: count }, (_, i) => Math.sin(i + from))

const weight = input('weight', ['columns', 3])
const x = input('x', ['rows', 3])
const product = ops.matmul(x, weight, { transposeB: true })
const outputs = { product, scaled: ops.mul(x, input('factor', [])) }

it('are three', () => {
  expect(runtimes.map(([, create]) => typeof create)).toEqual(['function', 'function', 'function'])
})

describe.each(runtimes)('%s', (_, create) => {
  it('computes the same in every run, whatever the sizes, and gives each its own arrays', async () => {
    const session = await create(emit('test', outputs), { threads: 1 })
    const values = (rows: number) => ({
      x: floats(numbers(rows * 3), [rows, 3]),
      weight: floats(numbers(12, 9), [4, 3]),
      factor: scalar(2),
    })
    const run = (rows: number) => {
      const named = values(rows)
      return session.run(session.inputs.map((name) => named[name as keyof typeof named]))
    }
    const [two, five, again] = [await run(2), await run(5), await run(2)]
    for (const [rows, found] of [
      [2, two],
      [5, five],
      [2, again],
    ] as const) {
      const given = values(rows)
      expect(found.product.dims).toEqual([rows, 4])
      expect(floatData(found.scaled)).toEqual(floatData(given.x).map((value) => 2 * value))
      floatData(found.product).forEach((value, at) => {
        const [row, column] = [at >> 2, at % 4]
        let sum = 0
        for (let i = 0; i < 3; i++)
          sum += floatData(given.x)[3 * row + i] * floatData(given.weight)[3 * column + i]
        expect(value).toBeCloseTo(sum, 5)
      })
    }
    await session.release()
  })

  it('reads inputs where they lie, and gives what stands in the arrays that were given, or in its own', async () => {
    const session = await create(emit('double', { y: ops.mul(input('x', ['n']), 2) }), { threads: 1 })
    const room = new Float32Array(5)
    const data = Float32Array.of(1, 2, 3)
    // A part of a longer array, as caches are.
    const into = { y: floats(room.subarray(1, 4), [3]) }
    expect([...floatData((await session.run([floats(data, [3])], into)).y)]).toEqual([2, 4, 6])
    data[0] = 10
    expect([...floatData((await session.run([floats(data, [3])], into)).y)]).toEqual([20, 4, 6])
    expect([room[0], room[4]]).toEqual([0, 0])
    await session.release()
  })

  it('takes whole numbers, and constants when it is made', async () => {
    const graph = emit(
      'picked',
      {
        y: ops.sliceLast(
          ops.gather(input('table', [4, 2]), input('rows', ['n'], 'int32')),
          0,
          input('end', [1], 'int64'),
          'end',
        ),
      },
      { constants: new Set(['table']) },
    )
    const table = numbers(8)
    const constants = new Map([['table', new Uint8Array(table.slice().buffer)]])
    const session = await create(graph, { threads: 1, constants })
    constants.get('table')!.fill(0)
    const given = { rows: int32s([3, 0], [2]), end: int64s([1], [1]) }
    const { y } = await session.run(session.inputs.map((name) => given[name as keyof typeof given]))
    expect([...floatData(y)]).toEqual([table[6], table[0]])
    await session.release()
  })

  it('throws what ONNX Runtime says of sizes that do not fit, and goes on', async () => {
    const session = await create(emit('test', { product }), { threads: 1 })
    const right = { x: floats(numbers(6), [2, 3]), weight: floats(numbers(12), [4, 3]) }
    const wrong = { ...right, x: floats(numbers(6), [3, 2]) }
    const listed = (values: typeof right) => session.inputs.map((name) => values[name as keyof typeof right])
    await expect(session.run(listed(wrong))).rejects.toThrow(/x|dimension|Invalid/i)
    expect((await session.run(listed(right))).product.dims).toEqual([2, 4])
    await session.release()
    await expect(create(new Uint8Array([1, 2, 3]), { threads: 1 })).rejects.toThrow()
  })
})

it('gives the same bits by the C API as by the Node binding', async () => {
  const [direct, bound] = await Promise.all(
    runtimes.slice(0, 2).map(([, create]) => create(emit('test', outputs), { threads: 1 })),
  )
  for (const rows of [1, 7, 64]) {
    const given = {
      x: floats(numbers(rows * 3), [rows, 3]),
      weight: floats(numbers(300, 9), [100, 3]),
      factor: scalar(0.3),
    }
    const listed = direct.inputs.map((name) => given[name as keyof typeof given])
    const room = { product: floats(new Float32Array(rows * 100), [rows, 100]) }
    const [found, known] = [await direct.run(listed, room), await bound.run(listed)]
    expect(found.product).toBe(room.product)
    for (const name of ['product', 'scaled']) expect(floatData(found[name])).toEqual(floatData(known[name]))
  }
  await Promise.all([direct.release(), bound.release()])
})

it('says which input is missing', async () => {
  const program = await compile(emit('test', { product }))
  await expect(program.run([{ x: floats(numbers(6), [2, 3]) }])).rejects.toThrow(
    "the graph's input weight was not given",
  )
  await program.release()
})

it('goes on by the Node binding where koffi is not installed', () => {
  const program = `
    import Module from 'node:module'
    const resolve = Module._resolveFilename
    Module._resolveFilename = function (name, ...rest) {
      if (name === 'koffi') throw new Error('it is not installed')
      return resolve.call(this, name, ...rest)
    }
    const of = (name) => import(new URL(name, ${JSON.stringify(import.meta.url)}))
    const { directSessions } = await of('direct.ts')
    const { compile, floats } = await of('session.ts')
    const { emit } = await of('../graph/emit.ts')
    const { neg } = await of('../graph/ops.ts')
    const { input } = await of('../graph/tensor.ts')
    const { y } = await (await compile(emit('test', { y: neg(input('x', [2])) }))).run([
      { x: floats(Float32Array.of(1, -2), [2]) },
    ])
    console.log(directSessions(), String(y.data))`
  const flags = ['--import', import.meta.resolve('tsx'), '--input-type=module', '--eval', program]
  expect(execFileSync(process.execPath, flags, { encoding: 'utf8' })).toBe('null -1,2\n')
})
