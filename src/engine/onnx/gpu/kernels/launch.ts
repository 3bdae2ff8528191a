/** What is launched of our own kernels. Nothing here computes; driver.ts does, on CUDA. */

/** A value that a kernel is given. */
export type Argument = { pointer: bigint } | { int: number } | { float: number }

/** Sources compiled together with the sizes that they are made for. */
export interface Unit {
  files: readonly Source[]
  defines: Readonly<Record<string, number>>
}

export type Source = 'products' | 'blocks' | 'rows' | 'attention' | 'draw' | 'training' | 'packedAttention'

export interface Launch {
  unit: Unit
  kernel: string
  grid: readonly [number, number, number]
  /** Threads of a block. */
  threads: number
  /** Bytes of dynamic shared memory. */
  shared?: number
  arguments: readonly Argument[]
}

export const unitKey = ({ files, defines }: Unit): string =>
  `${files.join(' ')} ${Object.entries(defines).join(' ')}`
