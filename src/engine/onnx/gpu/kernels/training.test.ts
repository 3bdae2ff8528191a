/** The operators of training, their kernels run on the CPU. */
import { afterEach, beforeAll, describe, expect } from 'vitest'
import { f16ToF32, f32ToF16 } from '../../../checkpoint/halves.ts'
import type { NativeType } from '../../native.ts'
import type { OperatorTensor } from '../../operators.ts'
import { sourceOf } from './sources.ts'
import { compileForHost, type HostKernels, type HostMemory, hasCompiler } from './testing/emulator.ts'
import { type Given, type Numbers, type RunOperator, trainingCases } from './testing/trainingCases.ts'
import { trainingOperators } from './training.ts'

const skipped = !hasCompiler()
const sizes = { multiprocessors: 4, sharedBytes: 227 * 1024 }
const count = (dims: Numbers) => dims.reduce((product, size) => product * size, 1)

const written = ({ dtype, values }: Given): Uint8Array => {
  const halves = new Uint16Array(values.length)
  if (dtype === 'float16') f32ToF16(Float32Array.from(values), halves)
  const array =
    dtype === 'float16' ? halves : dtype === 'int32' ? Int32Array.from(values) : Float32Array.from(values)
  return new Uint8Array(array.buffer)
}
const read = (bytes: Uint8Array, dtype: NativeType): Numbers => {
  const { buffer } = bytes.slice()
  if (dtype !== 'float16') return [...new Float32Array(buffer)]
  const values = new Float32Array(bytes.length / 2)
  f16ToF32(new Uint16Array(buffer), values)
  return [...values]
}

describe.skipIf(skipped)('operators of training', () => {
  let kernels: HostKernels
  let held: HostMemory[] = []
  let hiddenSize = 64

  const open = async (size: number) => {
    hiddenSize = size
    const [{ unit }] = operatorsOf()
    kernels = await compileForHost(sourceOf(unit))
  }
  const operatorsOf = () => trainingOperators({ hiddenSize } as Parameters<typeof trainingOperators>[0])
  const allocate = (bytes: number) => {
    const memory = kernels.allocate(bytes)
    held.push(memory)
    return memory
  }
  beforeAll(() => open(64))
  afterEach(() => {
    for (const memory of held) memory.free()
    held = []
  })

  /** What an operator gives: the same forwards and backwards, and where outputs lie in inputs' memory. */
  const run: RunOperator = async (name, inputs, attributes = {}) => {
    const operator = operatorsOf().find((one) => one.name === name)
    if (operator === undefined) throw new Error(`there is no operator ${name}`)
    expect(inputs.map(({ dtype }) => dtype)).toEqual(operator.inputs)
    const dims = operator.shapes(
      inputs.map((input) => input.dims),
      attributes,
    )
    const computed = (backwards: boolean, inPlace: boolean): Numbers[] => {
      const memory = inputs.map((input) => {
        const bytes = written(input)
        const place = allocate(bytes.length)
        place.bytes.set(bytes)
        return place
      })
      const results = operator.outputs.map((dtype, i) => {
        const shared = inPlace ? operator.inPlace?.find(([, to]) => to === i) : undefined
        if (shared !== undefined) return memory[shared[0]]
        return allocate(count(dims[i]) * (dtype === 'float16' ? 2 : 4))
      })
      const tensor = (sizes: Numbers, { pointer }: HostMemory): OperatorTensor => ({ dims: sizes, pointer })
      const launches = operator.launches(
        {
          inputs: inputs.map((input, i) => tensor(input.dims, memory[i])),
          outputs: results.map((place, i) => tensor(dims[i], place)),
          attributes,
        },
        sizes,
      )
      for (const { kernel, grid, threads, shared, arguments: given } of launches)
        kernels.launch(kernel, { grid, block: [threads], shared, backwards }, given)
      return results.map(({ bytes }, i) => read(bytes, operator.outputs[i]))
    }
    const found = computed(false, false)
    expect(computed(true, false)).toEqual(found)
    expect(computed(false, true)).toEqual(found)
    return found
  }

  // Rows that begin between words, shorter than one, and of more words than a block asks for at a time.
  trainingCases(run, open, { vocabularies: [3, 8, 601, 1024, 16500] })
})
