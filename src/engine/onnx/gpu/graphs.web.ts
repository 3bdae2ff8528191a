/** In a browser graphs are ONNX Runtime's. */
export type { OwnGraphs } from './graphs.ts'

export const openOwnGraphs = async (): Promise<null> => null
