/** Pieces of WGSL that kernels share. */
import type { DType } from '../../graph/tensor.ts'
import type { Grid } from './gpu.ts'

/** Threads of a workgroup, of kernels that want no other number. */
export const THREADS = 256
const MOST_GROUPS = 65535

/** Workgroups for so many, in two dimensions where one does not reach. */
export function gridOf(groups: number): Grid {
  const rows = Math.max(1, Math.ceil(groups / MOST_GROUPS))
  return [Math.ceil(groups / rows), rows, 1]
}

/** The number of a workgroup in `gridOf`, which may be one that is too many. */
export const GROUP = 'let group = number.y * groups.x + number.x;'
/** What `GROUP` and kernels of rows take of what is built in. */
export const BUILTINS =
  '@builtin(workgroup_id) number: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32'

/** How a tensor is held: halves in pairs, what is true as ones. */
export const WORD: Readonly<Record<DType, 'f32' | 'i32' | 'u32'>> = {
  float32: 'f32',
  float16: 'u32',
  int32: 'i32',
  int64: 'i32',
  bool: 'u32',
}

export function bytesOf(dtype: DType, dims: readonly number[]): number {
  const count = sizeOf(dims)
  return dtype === 'float16' ? 4 * Math.ceil(count / 2) : 4 * count
}

export const sizeOf = (dims: readonly number[]): number => dims.reduce((size, dim) => size * dim, 1)

/** A function by which an element of a tensor at a binding is read as a number in single precision. */
export function reader(name: string, dtype: DType): string {
  const read =
    dtype === 'float16'
      ? `unpack2x16float(${name}[at >> 1u])[at & 1u]`
      : dtype === 'float32'
        ? `${name}[at]`
        : `f32(${name}[at])`
  return `fn read_${name}(at: u32) -> f32 { return ${read}; }`
}

export const binding = (place: number, name: string, type: string, access: 'read' | 'read_write' = 'read') =>
  `@group(0) @binding(${place}) var<storage, ${access}> ${name}: array<${type}>;`

export const uniform = (place: number, members: string) =>
  `struct Values { ${members} }\n@group(0) @binding(${place}) var<uniform> values: Values;`

/** sum_of: of a number over the threads of a workgroup, the same in all of them. */
export const SUM = `
var<workgroup> summed: array<f32, ${THREADS}>;
fn sum_of(value: f32, thread: u32) -> f32 {
  summed[thread] = value;
  workgroupBarrier();
  for (var step = ${THREADS / 2}u; step > 0u; step >>= 1u) {
    if (thread < step) { summed[thread] += summed[thread + step]; }
    workgroupBarrier();
  }
  let sum = summed[0];
  workgroupBarrier();
  return sum;
}`
