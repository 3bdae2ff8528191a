/**
 * Graphs of ONNX run by our own kernels, as `native.ts` runs them by ONNX Runtime: inputs and outputs are tensors that stay
 * on the GPU, or arrays of the host's. What lies between is planned when inputs are bound, in buffers that are taken from
 * a pool as soon as nothing reads them any more.
 */
import type { DType } from '../../graph/tensor.ts'
import type { Binding, HostArray, NativeProgram, NativeTensor, NativeType } from '../native.ts'
import { elementwise } from './elementwise.ts'
import type { Gpu, Prepared, Step } from './gpu.ts'
import { type Graph, readGraph } from './graph.ts'
import { type GraphValue, operators, type Plan, type Storage, type TensorValue } from './operators.ts'
import { bytesOf } from './wgsl.ts'

/** What runs the programs of a lane, and holds their tensors. */
export interface GraphRuntime {
  program(bytes: Uint8Array): NativeProgram
  /** A tensor on the GPU, zeros. */
  tensor(dtype: NativeType, dims: readonly number[]): NativeTensor
  write(tensor: NativeTensor, data: HostArray): void
  read(tensor: NativeTensor, into: HostArray): Promise<void>
  /** Fills tensors with zeros. */
  clear(tensors: readonly NativeTensor[]): void
  /** Gives back memory that is held for what is to be computed next. */
  trim(): void
}

export const bufferOf = ({ value }: NativeTensor): GPUBuffer => value as GPUBuffer

const nowhere = (): never => {
  throw new Error('a tensor on WebGPU has no address')
}

/** `heads`: of what attention there is. */
export function openGraphs(gpu: Gpu, heads?: Plan['heads']): GraphRuntime {
  const pool = openPool(gpu)
  const runtime: GraphRuntime = {
    tensor(dtype, dims) {
      const value = gpu.buffer(bytesOf(dtype, dims))
      return { dims, dtype, value, address: nowhere, dispose: () => value.destroy() }
    },
    write: (tensor, data) => gpu.write(bufferOf(tensor), wordsOf(data)),
    read: (tensor, into) => gpu.read(bufferOf(tensor), into),
    clear: (tensors) => gpu.clear(tensors.map(bufferOf)),
    trim: pool.trim,
    program(bytes) {
      const graph = readGraph(bytes)
      return {
        inputs: graph.inputs,
        tensor: runtime.tensor,
        bind(sources, outputs) {
          const given: Record<string, NativeTensor> = {}
          for (const name of graph.inputs) {
            const source = sources.find((tensors) => name in tensors)
            if (source === undefined) throw new Error(`the graph's input ${name} was not given`)
            given[name] = source[name]
          }
          return bindingOf(gpu, pool, graph, heads, given, outputs)
        },
        release() {},
      }
    },
  }
  return runtime
}

/** As it is held: whole numbers in 32 bits. */
const wordsOf = (data: HostArray): ArrayBufferView =>
  data instanceof BigInt64Array ? Int32Array.from(data, Number) : data

function bindingOf(
  gpu: Gpu,
  pool: Pool,
  graph: Graph,
  heads: Plan['heads'],
  given: Record<string, NativeTensor>,
  outputs: Readonly<Record<string, NativeTensor>>,
): Binding {
  let planned: Planned | undefined
  let prepared: Prepared | undefined
  const forget = () => {
    prepared?.dispose()
    planned?.giveBack()
    planned = prepared = undefined
  }
  return {
    async run() {
      if (planned === undefined) {
        planned = planOf(gpu, pool, graph, heads, given, outputs)
        try {
          await gpu.compile(planned.steps.flatMap((step) => ('code' in step ? [step.code] : [])))
          prepared = gpu.prepare(planned.steps)
        } catch (error) {
          forget()
          throw error
        }
      }
      for (const [name, buffer] of planned.uploads) gpu.write(buffer, wordsOf(given[name].data as HostArray))
      prepared?.run()
      for (const [name, buffer] of planned.downloads) await gpu.read(buffer, outputs[name].data as HostArray)
      if (planned.downloads.size === 0) await gpu.done()
    },
    give(name, tensor) {
      given[name] = tensor
      forget()
    },
    dispose: forget,
  }
}

interface Planned {
  steps: readonly Step[]
  /** Where what the host has goes, by name, and what comes back. */
  uploads: ReadonlyMap<string, GPUBuffer>
  downloads: ReadonlyMap<string, GPUBuffer>
  giveBack(): void
}

function planOf(
  gpu: Gpu,
  pool: Pool,
  graph: Graph,
  heads: Plan['heads'],
  given: Readonly<Record<string, NativeTensor>>,
  outputs: Readonly<Record<string, NativeTensor>>,
): Planned {
  const steps: Step[] = []
  const taken = new Set<GPUBuffer>()
  const free = openShelf()
  const take = (bytes: number): GPUBuffer => {
    const buffer = free.take(bytes) ?? pool.take(bytes)
    taken.add(buffer)
    return buffer
  }
  const fresh = (dtype: DType, dims: readonly number[]): TensorValue => ({
    kind: 'tensor',
    dtype,
    dims,
    storage: { buffer: take(bytesOf(dtype, dims)), uses: 0, pooled: true },
  })
  const uses = new Map<string, number>()
  for (const { inputs } of graph.nodes) for (const name of inputs) uses.set(name, (uses.get(name) ?? 0) + 1)
  const values = new Map<string, GraphValue>()
  const uploads = new Map<string, GPUBuffer>()
  const downloads = new Map<string, GPUBuffer>()
  /** Of what is given on the GPU: outputs are not written there before the end. */
  const read = new Set<GPUBuffer>()
  const storageOf = (value: GraphValue): Storage | undefined =>
    value.kind === 'tensor' ? value.storage : value.kind === 'wide' ? value.column.storage : undefined

  for (const [name, { dtype, dims, data }] of graph.constants)
    values.set(name, { kind: 'numbers', dtype, dims, data })
  for (const [name, { dtype, dims, data, value }] of Object.entries(given)) {
    if (data === undefined) {
      const buffer = value as GPUBuffer
      read.add(buffer)
      values.set(name, { kind: 'tensor', dtype, dims, storage: { buffer, uses: 0, pooled: false } })
      continue
    }
    const tensor = fresh(dtype, dims)
    // Written before the first step: nothing else may stand there.
    tensor.storage.pooled = false
    tensor.given = data as ArrayLike<number | bigint>
    uploads.set(name, tensor.storage.buffer)
    values.set(name, tensor)
  }
  /** What stands elsewhere and is to be copied to its place at the end. */
  const late: { value: TensorValue; to: GPUBuffer }[] = []
  const wanted = new Set(graph.outputs)

  for (const node of graph.nodes) {
    const scratch: GPUBuffer[] = []
    const plan: Plan = {
      traits: gpu.traits,
      heads,
      add: (...more) => steps.push(...more),
      output(place, dtype, dims) {
        const name = node.outputs[place] ?? ''
        const device = wanted.has(name) ? outputs[name] : undefined
        if (device !== undefined && device.data === undefined && !read.has(device.value as GPUBuffer)) {
          const storage = { buffer: device.value as GPUBuffer, uses: 0, pooled: false }
          return { kind: 'tensor', dtype, dims, storage }
        }
        return fresh(dtype, dims)
      },
      scratch(bytes) {
        const buffer = take(bytes)
        scratch.push(buffer)
        return buffer
      },
      filled(data) {
        // Written when it is planned: it is for this plan alone.
        const buffer = pool.take(4 * data.length)
        taken.add(buffer)
        gpu.write(buffer, data)
        return buffer
      },
    }
    const operator = operators[node.op]
    if (operator === undefined) throw new Error(`the operator ${node.op} is not computed on WebGPU`)
    const inputs = node.inputs.map((name) => (name === '' ? null : (values.get(name) ?? null)))
    const found = operator(node, inputs, plan)
    for (const buffer of scratch) free.give(buffer)
    found.forEach((value, place) => {
      const name = node.outputs[place] ?? ''
      const storage = storageOf(value)
      const readers = (uses.get(name) ?? 0) + (wanted.has(name) ? 1 : 0)
      if (storage) storage.uses += readers
      if (name !== '') values.set(name, value)
      // Nobody asks for it.
      else if (storage?.pooled && storage.uses === 0) free.give(storage.buffer)
    })
    for (const [place, name] of node.outputs.entries()) {
      const value = values.get(name)
      const storage = value && storageOf(value)
      if (place < found.length && storage?.pooled && storage.uses === 0) free.give(storage.buffer)
    }
    for (const value of inputs) {
      const storage = value ? storageOf(value) : undefined
      if (storage?.pooled && --storage.uses === 0) free.give(storage.buffer)
    }
  }

  for (const name of graph.outputs) {
    const { data, value } = outputs[name]
    let found = values.get(name)
    if (found === undefined || found.kind === 'wide') throw new Error(`the graph has no output ${name}`)
    if (found.kind !== 'tensor') {
      const { dtype, dims, kind } = found
      const tensor = fresh(dtype, dims)
      if (kind === 'numbers' && found.data.length !== 1) throw new Error(`the output ${name} is no tensor`)
      const number = found.kind === 'zeros' ? 0 : found.data[0]
      const { buffer } = tensor.storage
      steps.push(elementwise((x) => x, [number], { buffer, dtype, dims }))
      found = tensor
    }
    if (data !== undefined) downloads.set(name, found.storage.buffer)
    else if (found.storage.buffer !== value) late.push({ value: found, to: value as GPUBuffer })
  }
  for (const { value, to } of late) {
    const { buffer: source } = value.storage
    const bytes = bytesOf(value.dtype, value.dims)
    steps.push({ source, sourceOffset: 0, target: to, targetOffset: 0, bytes })
  }
  return {
    steps,
    uploads,
    downloads,
    giveBack: () => {
      for (const buffer of taken) pool.give(buffer)
    },
  }
}

/** Buffers to be had again, by their sizes. */
function openShelf() {
  const buffers: GPUBuffer[] = []
  return {
    buffers,
    /** The least that is large enough, and not much too large. */
    take(bytes: number): GPUBuffer | undefined {
      const at = buffers.findIndex(({ size }) => size >= bytes)
      if (at < 0 || buffers[at].size > LOOSE * Math.max(bytes, SMALL)) return undefined
      return buffers.splice(at, 1)[0]
    },
    give(buffer: GPUBuffer) {
      const at = buffers.findIndex(({ size }) => size >= buffer.size)
      buffers.splice(at < 0 ? buffers.length : at, 0, buffer)
    },
  }
}

/** So many times what is wanted is not too large; below so many bytes nothing is. */
const LOOSE = 1.5
const SMALL = 1 << 16

interface Pool {
  take(bytes: number): GPUBuffer
  give(buffer: GPUBuffer): void
  trim(): void
}

/** Buffers that programs compute in, kept between their runs. */
function openPool(gpu: Gpu): Pool {
  const shelf = openShelf()
  return {
    take: (bytes) => shelf.take(bytes) ?? gpu.buffer(bytes),
    give: shelf.give,
    trim() {
      for (const buffer of shelf.buffers.splice(0)) buffer.destroy()
    },
  }
}
