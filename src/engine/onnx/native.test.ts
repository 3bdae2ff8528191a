/** The C API against the Node binding, on the CPU. On CUDA, `selftest --device cuda` uses all of it. */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, it } from 'vitest'
import { emit } from '../graph/emit.ts'
import * as ops from '../graph/ops.ts'
import { input } from '../graph/tensor.ts'
import { hostTensor, nativeProgram } from './native.ts'
import { compile, floatData, floats } from './session.ts'

const a = input('a', ['rows', 3])
const bytes = emit('test', { product: ops.matmul(a, input('b', ['columns', 3]), { transposeB: true }) })
const program = await nativeProgram(bytes, { provider: 'cpu' })
afterAll(() => program.release())
const numbers = (count: number, from = 0) =>
  Float32Array.from({ length: count }, (_, i) => Math.sin(i + from))

it('computes what the Node binding computes, into the tensor that is given', async () => {
  expect(program.inputs).toEqual(['a', 'b'])
  const given = {
    a: hostTensor('float32', numbers(6), [2, 3]),
    b: hostTensor('float32', numbers(12, 9), [4, 3]),
  }
  const product = new Float32Array(8)
  const result = hostTensor('float32', product, [2, 4])
  await program.bind([given], { product: result }).run()
  const known = await compile(bytes)
  const { product: expected } = await known.run([
    { a: floats(numbers(6), [2, 3]), b: floats(numbers(12, 9), [4, 3]) },
  ])
  expect(product).toEqual(floatData(expected))
  await known.release()
})

it('keeps tensors of its own between runs, and writes in place', async () => {
  const adding = await nativeProgram(emit('add', { y: ops.add(input('x', ['n']), input('step', [])) }), {
    provider: 'cpu',
  })
  const x = adding.tensor('float32', [5])
  const step = hostTensor('float32', Float32Array.of(0.5), [])
  const start = hostTensor('float32', numbers(5), [5])
  await adding.bind([{ x: start, step }], { y: x }).run()
  const binding = adding.bind([{ x, step }], { y: x })
  for (let i = 0; i < 9; i++) await binding.run()
  // Shared memory is written to like any other.
  const shared = new Float32Array(new SharedArrayBuffer(20))
  await adding
    .bind([{ x, step: hostTensor('float32', Float32Array.of(0), []) }], {
      y: hostTensor('float32', shared, [5]),
    })
    .run()
  numbers(5).forEach((value, i) => {
    expect(shared[i]).toBeCloseTo(value + 5, 5)
  })
  adding.release()
})

it('says what ONNX Runtime says of what does not fit, and which input is missing', async () => {
  const wrong = {
    a: hostTensor('float32', numbers(6), [3, 2]),
    b: hostTensor('float32', numbers(12), [4, 3]),
  }
  const result = hostTensor('float32', new Float32Array(12), [3, 4])
  await expect(program.bind([wrong], { product: result }).run()).rejects.toThrow(/a|dimension|Invalid/i)
  expect(() => program.bind([{ a: wrong.a }], { product: result })).toThrow(
    "the graph's input b was not given",
  )
  await expect(nativeProgram(new Uint8Array([1, 2, 3]), { provider: 'cpu' })).rejects.toThrow()
})

it('keeps the library open, though nothing but addresses in it are used', () => {
  const file = fileURLToPath(new URL('./testing/collected.ts', import.meta.url))
  const flags = ['--expose-gc', '--import', import.meta.resolve('tsx')]
  expect(execFileSync(process.execPath, [...flags, file], { encoding: 'utf8' })).toBe('-1,2\n')
})
