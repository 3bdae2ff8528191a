/** Opens a lane in a browser. */
export { openLane as openLaneOn } from './lane.ts'
