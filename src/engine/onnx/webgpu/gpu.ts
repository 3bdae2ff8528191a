/// <reference types="@webgpu/types" />
/**
 * A GPU by WebGPU: buffers, pipelines made once from their WGSL, and lists of dispatches, prepared once and run again and
 * again. What is computed is said elsewhere; this is the same in Node and in a browser.
 */
import { LostError } from '../../../errors.ts'

/** Of a GPU, what kernels are chosen by. */
export interface Traits {
  name: string
  /** It is the processor's: for tests. */
  software: boolean
  /**
   * Products of 16 x 16 x 16 in one instruction of a subgroup of 32: halves, added up in single precision. Everything else
   * is plain WGSL, without extensions.
   */
  matrices: boolean
  /** Bytes of a buffer that a kernel may read, and of what a workgroup may share. */
  bufferBytes: number
  workgroupBytes: number
}

export type Value = { int: number } | { float: number }
export type Grid = readonly [x: number, y: number, z: number]

/**
 * A kernel's run. Its WGSL has one entry, `main`; storage buffers stand at bindings 0, 1, ... of group 0 in the order given,
 * and where there are values, a uniform struct of them stands at the binding behind. All of them must be used.
 */
export interface Dispatch {
  code: string
  buffers: readonly GPUBuffer[]
  values?: readonly Value[]
  grid: Grid
}

/** Bytes from one buffer to another: multiples of 4. */
export interface Copy {
  source: GPUBuffer
  sourceOffset: number
  target: GPUBuffer
  targetOffset: number
  bytes: number
}

export type Step = Dispatch | Copy

/** Steps that run in their order, each seeing what those before it wrote. */
export interface Prepared {
  /** Begins so many runs, one after another, without waiting for their end. */
  run(times?: number): void
  dispose(): void
}

export interface Gpu {
  traits: Traits
  /** Of at least so many bytes, zeros. */
  buffer(bytes: number): GPUBuffer
  /** Makes pipelines, all at once. @throws Error with the compiler's words. */
  compile(codes: Iterable<string>): Promise<void>
  /** Of compiled kernels. */
  prepare(steps: readonly Step[]): Prepared
  /** From the start of a buffer. What is written is seen by what is run afterwards. */
  write(buffer: GPUBuffer, data: ArrayBufferView): void
  read(buffer: GPUBuffer, into: ArrayBufferView): Promise<void>
  /** Fills buffers with zeros. */
  clear(buffers: readonly GPUBuffer[]): void
  /** Waits until all that was begun has ended. @throws what the GPU refused since it was last asked. */
  done(): Promise<void>
  close(): void
}

/** GPUBufferUsage, which Node has not by itself. */
const USAGE = { MAP_READ: 1, COPY_SRC: 4, COPY_DST: 8, UNIFORM: 64, STORAGE: 128 }
const MAP_READ = 1

/** Features that are made use of where they are there: those that products of matrices take. */
export const MATRIX_FEATURES = ['shader-f16', 'subgroups', 'chromium-experimental-subgroup-matrix'] as const
const TILE = 16
const SUBGROUP = 32

interface MatrixConfig {
  componentType: string
  resultComponentType: string
  M: number
  N: number
  K: number
}

/** Opens an adapter with all that it allows. */
export async function openGpu(adapter: GPUAdapter): Promise<Gpu> {
  const info = adapter.info as GPUAdapterInfo & {
    subgroupMinSize?: number
    subgroupMaxSize?: number
    subgroupMatrixConfigs?: Iterable<MatrixConfig>
    isFallbackAdapter?: boolean
  }
  const has = (feature: string) => adapter.features.has(feature as GPUFeatureName)
  const matrices =
    MATRIX_FEATURES.every(has) &&
    info.subgroupMinSize === SUBGROUP &&
    info.subgroupMaxSize === SUBGROUP &&
    [...(info.subgroupMatrixConfigs ?? [])].some(
      ({ componentType, resultComponentType, M, N, K }) =>
        componentType === 'f16' && resultComponentType === 'f32' && M === TILE && N === TILE && K === TILE,
    )
  // Properties of a prototype: a copy of the object would have none.
  const requiredLimits: Record<string, number> = {}
  for (const limit in adapter.limits) {
    const value = adapter.limits[limit as keyof GPUSupportedLimits]
    if (typeof value === 'number') requiredLimits[limit] = value
  }
  const device = await adapter.requestDevice({
    requiredLimits,
    requiredFeatures: matrices ? (MATRIX_FEATURES as readonly string[] as GPUFeatureName[]) : [],
  })
  const { limits, queue } = device
  const lost = device.lost.then(({ message }): never => {
    throw new LostError(`the GPU was lost (${message || 'it does not say why'})`)
  })
  lost.catch(() => {})
  const unlessLost = <T>(work: Promise<T>): Promise<T> => Promise.race([work, lost])
  let refused: Error | undefined
  device.addEventListener('uncapturederror', ({ error }) => {
    const memory = error.constructor.name === 'GPUOutOfMemoryError'
    refused ??= new Error(
      `${memory ? 'out of memory' : 'the GPU refuses what it is to do'}: ${error.message}`,
    )
  })
  const checkRefused = () => {
    const error = refused
    refused = undefined
    if (error) throw error
  }

  const pipelines = new Map<string, GPUComputePipeline>()
  const making = new Map<string, Promise<void>>()
  const make = async (code: string): Promise<void> => {
    const module = device.createShaderModule({ code })
    const { messages } = await module.getCompilationInfo()
    const wrong = messages.find(({ type }) => type === 'error')
    if (wrong) {
      // It is told of as uncaptured too.
      refused = undefined
      const line = code.split('\n')[wrong.lineNum - 1]?.trim()
      throw new Error(`a kernel does not compile: ${wrong.message} (line ${wrong.lineNum}: ${line})`)
    }
    const pipeline = await device.createComputePipelineAsync({
      layout: 'auto',
      compute: { module, entryPoint: 'main' },
    })
    pipelines.set(code, pipeline)
  }
  const pad = (bytes: number) => 4 * Math.ceil(Math.max(bytes, 4) / 4)
  const alignment = limits.minUniformBufferOffsetAlignment
  let staging: GPUBuffer | undefined

  return {
    traits: {
      name: [info.vendor, info.description || info.device || info.architecture].filter(Boolean).join(' '),
      software: info.isFallbackAdapter ?? false,
      matrices,
      bufferBytes: Math.min(limits.maxStorageBufferBindingSize, limits.maxBufferSize),
      workgroupBytes: limits.maxComputeWorkgroupStorageSize,
    },
    buffer: (bytes) =>
      device.createBuffer({
        size: pad(bytes),
        usage: USAGE.STORAGE | USAGE.COPY_SRC | USAGE.COPY_DST,
      }),
    async compile(codes) {
      const work: Promise<void>[] = []
      for (const code of new Set(codes)) {
        if (pipelines.has(code)) continue
        let one = making.get(code)
        if (one === undefined) {
          one = make(code).finally(() => making.delete(code))
          making.set(code, one)
        }
        work.push(one)
      }
      await unlessLost(Promise.all(work))
    },
    prepare(steps) {
      const counts = steps.map((step) => ('code' in step ? (step.values?.length ?? 0) : 0))
      const slots = counts.filter((count) => count > 0).length
      const slot = alignment * Math.ceil((4 * Math.max(0, ...counts)) / alignment)
      const uniforms =
        slots > 0
          ? device.createBuffer({ size: slot * slots, usage: USAGE.UNIFORM | USAGE.COPY_DST })
          : undefined
      const words = new DataView(new ArrayBuffer(slot * slots))
      let taken = 0
      const ready = steps.map((step) => {
        if (!('code' in step)) return step
        const { code, buffers, values = [], grid } = step
        const pipeline = pipelines.get(code)
        if (pipeline === undefined) throw new Error('a kernel is to run that was not compiled')
        const resources: GPUBindingResource[] = buffers.map((buffer) => ({ buffer }))
        if (values.length > 0) {
          const offset = slot * taken++
          values.forEach((value, i) => {
            if ('int' in value) words.setInt32(offset + 4 * i, value.int, true)
            else words.setFloat32(offset + 4 * i, value.float, true)
          })
          resources.push({ buffer: uniforms as GPUBuffer, offset, size: 4 * values.length })
        }
        const group = device.createBindGroup({
          layout: pipeline.getBindGroupLayout(0),
          entries: resources.map((resource, binding) => ({ binding, resource })),
        })
        return { pipeline, group, grid }
      })
      if (uniforms) queue.writeBuffer(uniforms, 0, words.buffer)
      return {
        run(times = 1) {
          const encoder = device.createCommandEncoder()
          let pass: GPUComputePassEncoder | undefined
          for (let time = 0; time < times; time++) {
            for (const step of ready) {
              if ('pipeline' in step) {
                pass ??= encoder.beginComputePass()
                pass.setPipeline(step.pipeline)
                pass.setBindGroup(0, step.group)
                pass.dispatchWorkgroups(...step.grid)
              } else {
                pass?.end()
                pass = undefined
                const { source, sourceOffset, target, targetOffset, bytes } = step
                encoder.copyBufferToBuffer(source, sourceOffset, target, targetOffset, bytes)
              }
            }
          }
          pass?.end()
          queue.submit([encoder.finish()])
        },
        dispose: () => uniforms?.destroy(),
      }
    },
    write(buffer, data) {
      const given = new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
      // Dawn reads no memory that threads share: its binding ends the process.
      const bytes = given.buffer instanceof SharedArrayBuffer ? given.slice() : given
      const whole = bytes.length & ~3
      queue.writeBuffer(buffer, 0, bytes, 0, whole)
      // Of an odd number of halves the last is half a word.
      if (whole < bytes.length) {
        const rest = new Uint8Array(4)
        rest.set(bytes.subarray(whole))
        queue.writeBuffer(buffer, whole, rest)
      }
    },
    async read(buffer, into) {
      const bytes = into.byteLength
      const size = pad(bytes)
      if (staging === undefined || staging.size < size) {
        staging?.destroy()
        staging = device.createBuffer({ size, usage: USAGE.MAP_READ | USAGE.COPY_DST })
      }
      const encoder = device.createCommandEncoder()
      encoder.copyBufferToBuffer(buffer, 0, staging, 0, size)
      queue.submit([encoder.finish()])
      await unlessLost(staging.mapAsync(MAP_READ, 0, size))
      checkRefused()
      new Uint8Array(into.buffer, into.byteOffset, bytes).set(
        new Uint8Array(staging.getMappedRange(0, size), 0, bytes),
      )
      staging.unmap()
    },
    clear(buffers) {
      const encoder = device.createCommandEncoder()
      for (const buffer of buffers) encoder.clearBuffer(buffer)
      queue.submit([encoder.finish()])
    },
    async done() {
      await unlessLost(queue.onSubmittedWorkDone())
      checkRefused()
    },
    close: () => device.destroy(),
  }
}
