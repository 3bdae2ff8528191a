/** Opens a lane in a browser. */
import { type Lane, type LaneOptions, openLane } from './lane.ts'

export const openLaneOn = async (options: LaneOptions): Promise<Lane> => openLane(options)
