/** Opens a lane in a browser. */
import { type Lane, type LaneOptions, openLane } from './lane.ts'

export async function openLaneOn(options: LaneOptions): Promise<Lane> {
  if (options.place.device !== 'webgpu') return openLane(options)
  // Loaded where it is used: the runtime that it needs is large.
  const { openGpuLane } = await import('./gpu/lane.ts')
  return openGpuLane(options, 'webgpu')
}
