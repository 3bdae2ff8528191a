/** Our own kernels: their sources, and what is launched. Nothing here computes; driver.ts does, on CUDA. */
import { readFileSync } from 'node:fs'

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

/** A unit as CUDA C, without what a device needs of its own (`prelude`). */
export function sourceOf({ files, defines }: Unit): string {
  const lines = Object.entries(defines).map(([name, value]) => `#define ${name} ${value}\n`)
  return [...lines, ...files.map(read)].join('')
}

/** What kernels stand on where a device runs them. */
export const prelude = (): string => read('prelude')

const read = (name: string) => readFileSync(new URL(`./${name}.cu`, import.meta.url), 'utf8')
