/// <reference types="@webgpu/types" />
/**
 * The GPU that kernels are tried on: any that Dawn finds, such as Mesa's in software. null where there is none. (Chromium's
 * in software takes seconds to compile a product.)
 */
import { openDawn } from './dawn.ts'
import { type Gpu, MATRIX_FEATURES } from './gpu.ts'

let opened: Promise<Gpu | null> | undefined

export function gpuHere(): Promise<Gpu | null> {
  opened ??= openDawn().catch(() => null)
  return opened
}

/** What is wrong with kernels that use subgroups' products of matrices, which no GPU in software has: Dawn compiles them. */
export async function wrongWith(codes: readonly string[]): Promise<string[]> {
  const name = 'webgpu'
  const { create } = (await import(name)) as { create(options: string[]): GPU }
  const nothing = create(['backend=null', 'enable-dawn-features=allow_unsafe_apis'])
  const device = await (await nothing.requestAdapter())?.requestDevice({
    requiredFeatures: MATRIX_FEATURES as readonly string[] as GPUFeatureName[],
  })
  if (device === undefined) throw new Error('Dawn has no backend that computes nothing')
  const wrong: string[] = []
  for (const code of codes) {
    const { messages } = await device.createShaderModule({ code }).getCompilationInfo()
    // Warnings too: Dawn prints them.
    wrong.push(...messages.map(({ message, lineNum }) => `${message} (line ${lineNum})`))
  }
  device.destroy()
  return wrong
}
