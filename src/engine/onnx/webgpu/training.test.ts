import { describe } from 'vitest'
import { f16ToF32, f32ToF16 } from '../../checkpoint/halves.ts'
import type { DType } from '../../graph/tensor.ts'
import { type RunOperator, trainingCases } from '../gpu/kernels/testing/trainingCases.ts'
import type { Step } from './gpu.ts'
import { operators, type Plan, type TensorValue } from './operators.ts'
import { gpuHere } from './testing.ts'
import { bytesOf, sizeOf } from './wgsl.ts'

const gpu = await gpuHere()

describe.skipIf(gpu === null)('operators of training on WebGPU', () => {
  const run: RunOperator = async (name, inputs, attributes = {}) => {
    const tensor = (dtype: DType, dims: readonly number[]): TensorValue => {
      const buffer = gpu!.buffer(bytesOf(dtype, dims))
      return { kind: 'tensor', dtype, dims, storage: { buffer, uses: 0, pooled: false } }
    }
    const given = inputs.map(({ dtype, dims, values }) => {
      const value = tensor(dtype, dims)
      const halves = new Uint16Array(values.length)
      if (dtype === 'float16') f32ToF16(Float32Array.from(values), halves)
      const data =
        dtype === 'float16' ? halves : dtype === 'int32' ? Int32Array.from(values) : Float32Array.from(values)
      gpu!.write(value.storage.buffer, data)
      return value
    })
    const steps: Step[] = []
    const plan: Plan = {
      traits: gpu!.traits,
      heads: undefined,
      add: (...more) => steps.push(...more),
      output: (_, dtype, dims) => tensor(dtype, dims),
      scratch: (bytes) => gpu!.buffer(bytes),
      filled: () => gpu!.buffer(4),
    }
    const results = operators[name]({ op: name, inputs: [], outputs: [], attributes }, given, plan)
    await gpu!.compile(steps.flatMap((step) => ('code' in step ? [step.code] : [])))
    gpu!.prepare(steps).run()
    const found: number[][] = []
    for (const { storage, dtype, dims } of results as TensorValue[]) {
      const singles = new Float32Array(sizeOf(dims))
      if (dtype === 'float16') {
        const halves = new Uint16Array(singles.length)
        await gpu!.read(storage.buffer, halves)
        f16ToF32(halves, singles)
      } else await gpu!.read(storage.buffer, singles)
      found.push([...singles])
    }
    return found
  }
  // WGSL's powers are allowed a few more last bits.
  trainingCases(run, async () => {}, { vocabularies: [8, 602, 1024, 16500], exact: 2 })
})
