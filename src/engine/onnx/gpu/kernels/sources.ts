/** The sources of our own kernels, which lie beside this file. */
import { readFileSync } from 'node:fs'
import type { Unit } from './launch.ts'

/** A unit as CUDA C, without what a device needs of its own (`prelude`). */
export function sourceOf({ files, defines }: Unit): string {
  const lines = Object.entries(defines).map(([name, value]) => `#define ${name} ${value}\n`)
  return [...lines, ...files.map(read)].join('')
}

/** What kernels stand on where a device runs them. */
export const prelude = (): string => read('prelude')

const read = (name: string) => readFileSync(new URL(`./${name}.cu`, import.meta.url), 'utf8')
