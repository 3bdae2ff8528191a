/** A process that runs a program after its memory was collected (`--expose-gc`). */
import { emit } from '../../graph/emit.ts'
import * as ops from '../../graph/ops.ts'
import { input } from '../../graph/tensor.ts'
import { hostTensor, nativeProgram } from '../native.ts'

const bytes = emit('collected', { y: ops.neg(input('x', [2])) })
const program = await nativeProgram(bytes, { provider: 'cpu' })
const y = new Float32Array(2)
const binding = program.bind([{ x: hostTensor('float32', Float32Array.of(1, -2), [2]) }], {
  y: hostTensor('float32', y, [2]),
})
const { gc } = globalThis as { gc?: () => void }
for (let turn = 0; turn < 3; turn++) {
  gc?.()
  await new Promise((resolve) => setTimeout(resolve, 20))
}
await binding.run()
console.log(String(y))
