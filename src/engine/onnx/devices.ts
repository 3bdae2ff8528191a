/** Where the engine can compute. device.ts finds out what works. */
import { UserError } from '../../errors.ts'
import type { Precision } from './model.ts'

/** The processor, by the native runtime (`cpu`) or by WebAssembly (`wasm`); or a graphics processor. */
export type Device = HostDevice | GpuDevice
export type HostDevice = 'cpu' | 'wasm'
export type GpuDevice = 'cuda' | 'webgpu'

/** The best first. */
export const devices = ['cuda', 'webgpu', 'cpu', 'wasm'] as const satisfies readonly Device[]

export interface FoundDevice {
  device: Device
  /** What matrix products are computed in. */
  precision: Precision
  /** All that computes there is our own (`onnx/webgpu`). */
  own?: boolean
  /** What WebGPU tells of the GPU. */
  gpu?: {
    name: string
    /** Bytes of the largest buffer that a program may read there. */
    bufferBytes: number
  }
}

export const isHost = (device: Device): device is HostDevice => device === 'cpu' || device === 'wasm'

/** For a device that was asked for by its name. */
export const notHere = (device: string, why: string): UserError =>
  new UserError(`device ${device} does not work here: ${why}. --device auto takes the best that does.`)
