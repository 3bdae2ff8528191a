/** Kernels launched on the CPU, by the emulator. */
import type { KernelDriver } from '../driver.ts'
import { type Launch, unitKey } from '../launch.ts'
import { sourceOf } from '../sources.ts'
import { compileForHost, type HostKernels } from './emulator.ts'

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
    record: (launches) => ({ run: () => launchAll(launches), wait() {}, dispose() {} }),
    launch: launchAll,
  }
}
