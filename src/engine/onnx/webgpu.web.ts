/** The browser's GPU: whether there is one that ONNX Runtime can use, what it is called, and its device. */

/** An adapter that can be computed on. */
export interface Gpu {
  adapter: GPUAdapter
  /** What the browser tells of it; browsers tell little. */
  name: string
  /** Bytes of the largest buffer that a program may read. */
  bufferBytes: number
}

/** @throws with the reason, in a few words, where there is none. */
export async function findGpu(): Promise<Gpu> {
  if (!('Suspending' in WebAssembly)) {
    throw new Error('this browser lacks JSPI, by which WebAssembly waits for a GPU')
  }
  // Outside of secure contexts, and in browsers without WebGPU.
  const gpu = (navigator as { gpu?: GPU }).gpu
  if (gpu === undefined) throw new Error('this browser has no WebGPU, or gives it to secure pages alone')
  const adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' })
  if (adapter === null) throw new Error('the browser found no GPU')
  const { vendor, architecture, device, description } = adapter.info
  const name = [vendor, description || device || architecture].filter((word) => word).join(' ')
  const { maxStorageBufferBindingSize, maxBufferSize } = adapter.limits
  return {
    adapter,
    name: name || 'unnamed GPU',
    bufferBytes: Math.min(maxStorageBufferBindingSize, maxBufferSize),
  }
}

/** Features that the runtime makes use of where they are there. Halves are not: everything is single precision. */
const FEATURES = ['subgroups'] as const

/** The GPU's device with all that the adapter allows. */
export function openDevice({ adapter }: Gpu): Promise<GPUDevice> {
  // Properties of a prototype: a copy of the object would have none.
  const requiredLimits: Record<string, number> = {}
  for (const limit in adapter.limits) {
    const value = adapter.limits[limit as keyof GPUSupportedLimits]
    if (typeof value === 'number') requiredLimits[limit] = value
  }
  return adapter.requestDevice({
    requiredLimits,
    requiredFeatures: FEATURES.filter((feature) => adapter.features.has(feature)),
  })
}
