/** Kernels launched on the CPU, by the emulator. */
import { loadKoffi } from '../../../native.ts'
import type { KernelDriver } from '../driver.ts'
import { type Launch, unitKey } from '../launch.ts'
import { sourceOf } from '../sources.ts'
import { compileForHost, type HostKernels } from './emulator.ts'

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView) =>
  new Uint8Array(buffer, byteOffset, byteLength)

const memory = (pointer: bigint, { byteLength }: ArrayBufferView) =>
  new Uint8Array(loadKoffi().view(pointer, byteLength))

export function hostDriver(): KernelDriver {
  const compiled = new Map<string, HostKernels>()
  const launchAll = (launches: readonly Launch[]) => {
    for (const { unit, kernel, grid, threads, shared, arguments: given } of launches)
      (compiled.get(unitKey(unit)) as HostKernels).launch(kernel, { grid, block: [threads], shared }, given)
  }
  return {
    sizes: { multiprocessors: 4, sharedBytes: 227 * 1024 },
    async compile(units) {
      for (const unit of units) compiled.set(unitKey(unit), await compileForHost(sourceOf(unit)))
    },
    record: (launches) => ({
      run(times) {
        for (let i = 0; i < times; i++) launchAll(launches)
      },
      wait() {},
      dispose() {},
    }),
    launch: launchAll,
    write(pointer, data) {
      if (data.byteLength > 0) memory(pointer, data).set(bytesOf(data))
    },
    read(pointer, into) {
      if (into.byteLength > 0) bytesOf(into).set(memory(pointer, into))
    },
    clear(parts) {
      for (const [pointer, bytes] of parts)
        if (bytes > 0) new Uint8Array(loadKoffi().view(pointer, bytes)).fill(0)
    },
  }
}
