/** Operators of ONNX graphs that are launches of our own kernels. */
import type { Provider } from '../../native.ts'
import type { Operator, OperatorContext } from '../../operators.ts'
import type { KernelDriver } from './driver.ts'
import type { Launch, Unit } from './launch.ts'
import type { DeviceSizes } from './step.ts'

/** An operator by its launches, which run in their order on ONNX Runtime's stream. */
export interface KernelOperator extends Omit<Operator, 'provider' | 'compute'> {
  /** What all of its kernels are compiled in. */
  unit: Unit
  /** Those whose grid is empty are left out. */
  launches(context: Omit<OperatorContext, 'stream'>, device: DeviceSizes): readonly Omit<Launch, 'unit'>[]
}

/** The same for a program of that provider. Its unit has to be compiled before the program's first run. */
export function kernelOperator(
  { unit, launches, ...described }: KernelOperator,
  driver: KernelDriver,
  provider: Provider,
): Operator {
  return {
    ...described,
    provider: provider === 'cuda' ? 'CUDAExecutionProvider' : 'CPUExecutionProvider',
    compute({ stream, ...context }) {
      const filled = launches(context, driver.sizes).filter(({ grid }) => !grid.includes(0))
      driver.launch(
        filled.map((launch) => ({ ...launch, unit })),
        stream,
      )
    },
  }
}
