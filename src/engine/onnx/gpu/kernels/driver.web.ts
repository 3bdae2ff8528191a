/** A browser has no CUDA. */
import type { KernelDriver } from './driver.ts'

export function openDriver(): KernelDriver {
  throw new Error('a browser has no CUDA')
}
