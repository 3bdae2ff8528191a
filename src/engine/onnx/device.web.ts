/** Which devices compute in a browser. */
import { UserError } from '../../errors.ts'
import { memoryBytes } from '../../platform/machine.ts'
import type { Device, FoundDevice } from './devices.ts'

export async function chooseDevice(asked: Device | 'auto'): Promise<FoundDevice> {
  if (asked === 'wasm' || asked === 'auto') return { device: 'wasm', precision: 'float32' }
  throw new UserError(`device ${asked} does not work in a browser: leave it out, or give wasm.`)
}

export const deviceMemory = async (): Promise<number> => memoryBytes()
