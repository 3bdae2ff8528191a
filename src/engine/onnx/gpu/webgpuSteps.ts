/** Sampling steps of WebGPU's kernels. */
import type { Gpu } from '../webgpu/gpu.ts'
import { bufferOf } from '../webgpu/program.ts'
import { planSteps } from '../webgpu/step.ts'
import type { StepPlanner } from './kernelSteps.ts'

export const webgpuSteps =
  (gpu: Gpu): StepPlanner =>
  (config, sizes) => {
    const { buffers, dispatches } = planSteps(config, sizes, gpu.traits)
    return {
      buffers,
      valuesAsKeys: true,
      async begin(drawing, tensors) {
        const steps = dispatches(drawing, (name) => bufferOf(tensors[name]))
        await gpu.compile(steps.map(({ code }) => code))
        const { run, dispose } = gpu.prepare(steps)
        return { run, dispose, wait: gpu.done }
      },
    }
  }
