/** Opens a lane where it is to compute. In a browser, where no native runtime is, lanes.web.ts. */
import { isHost } from './devices.ts'
import { type Lane, type LaneOptions, openLane } from './lane.ts'

export async function openLaneOn(options: LaneOptions): Promise<Lane> {
  if (isHost(options.place.device)) return openLane(options)
  // Its binding is an optional dependency.
  const { openGpuLane } = await import('./gpu/lane.ts')
  return openGpuLane(options, options.place.device)
}
