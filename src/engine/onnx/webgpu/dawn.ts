/// <reference types="@webgpu/types" />
/** WebGPU in Node: Dawn, the implementation that Chromium has, by the optional package `webgpu`. */
import { type Gpu, openGpu } from './gpu.ts'

/**
 * Subgroups' products of matrices are an experiment still, and halves are held back on NVIDIA's drivers for want of a
 * feature of vertex shaders, which nothing here uses.
 */
const FEATURES = 'enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia'

/** As long as it is held, Dawn is there. */
let dawn: GPU | undefined

/** @throws Error with the reason in a few words where there is no GPU to be opened. */
export async function openDawn(): Promise<Gpu> {
  if (dawn === undefined) {
    // By a name that is not looked into: the package's types bring a page's along.
    const name = 'webgpu'
    const found = await import(name).catch((cause: unknown) => {
      throw new Error('the package webgpu does not load here: npm install webgpu brings it', { cause })
    })
    dawn = (found as { create(options: string[]): GPU }).create([FEATURES])
  }
  const adapter = await dawn.requestAdapter({ powerPreference: 'high-performance' })
  if (adapter === null) throw new Error('no GPU has a driver for Vulkan, Metal or Direct3D 12')
  return openGpu(adapter)
}
