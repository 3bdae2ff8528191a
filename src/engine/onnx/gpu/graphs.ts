/** What computes on WebGPU in Node: graphs and sampling steps, all by our own kernels (`onnx/webgpu`), on Dawn. */
import { UserError } from '../../../errors.ts'
import type { ModelConfig } from '../../checkpoint/config.ts'
import { openDawn } from '../webgpu/dawn.ts'
import { type GraphRuntime, openGraphs } from '../webgpu/program.ts'
import { unfitForWebgpu } from '../webgpu/step.ts'
import type { StepPlanner } from './kernelSteps.ts'
import { webgpuSteps } from './webgpuSteps.ts'

export interface OwnGraphs {
  graphs: GraphRuntime
  plan: StepPlanner
}

/** @throws UserError where the kernels are not made for the model. */
export async function openOwnGraphs(config: ModelConfig): Promise<OwnGraphs | null> {
  const why = unfitForWebgpu(config)
  if (why !== null)
    throw new UserError(`This model is not computed on WebGPU: it has ${why}. --device cpu computes it.`)
  const gpu = await openDawn()
  return { graphs: openGraphs(gpu, config), plan: webgpuSteps(gpu) }
}
