/** Opens the engine on the device that was asked for. A browser has another file in this one's place, open.web.ts. */
import type { Engine } from '../contract.ts'
import { chooseDevice } from './device.ts'
import type { Device, FoundDevice } from './devices.ts'

export interface Opened {
  engine: Engine
  /** How the device was chosen, in a sentence, where that was not the caller. */
  notice: string | null
}

/** `on` opens the engine on a device that works. */
export async function openOn(
  asked: Device | 'auto',
  on: (place: FoundDevice) => Promise<Engine>,
): Promise<Opened> {
  const engine = await on(await chooseDevice(asked))
  return { engine, notice: asked === 'auto' ? `Computing on ${engine.info.device}.` : null }
}
