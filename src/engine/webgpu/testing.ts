/**
 * The GPU that kernels are tried on: any that Dawn finds, such as Mesa's in software. null where there is none. (Chromium's
 * in software takes seconds to compile a product.)
 */
import { openDawn } from './dawn.ts'
import type { Gpu } from './gpu.ts'

let opened: Promise<Gpu | null> | undefined

export function gpuHere(): Promise<Gpu | null> {
  opened ??= openDawn().catch(() => null)
  return opened
}
