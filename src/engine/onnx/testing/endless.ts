/** A thread that makes a session with an operator of our own and runs it until it is terminated; it says when it begins. */
import { emit } from '../../graph/emit.ts'
import * as ops from '../../graph/ops.ts'
import { apply, input } from '../../graph/tensor.ts'
import { hostTensor, nativeProgram } from '../native.ts'
import type { Operator } from '../operators.ts'
import { thisThread } from '../threads.ts'

const same: Operator = {
  name: 'Same',
  inputs: ['float32'],
  outputs: ['float32'],
  provider: 'CPUExecutionProvider',
  shapes: (sizes) => sizes,
  compute() {},
}
const x = input('x', [100, 100])
let y = x
for (let i = 0; i < 2000; i++)
  y = ops.matmul(apply('Same', [y], [{ shape: y.shape }], {}, 'message-board')[0], x)
const bytes = emit('endless', { y }, { namesSizes: true })
const port = thisThread()
port.post('making')
const program = await nativeProgram(bytes, { provider: 'cpu', operators: [same] })
const tensor = () => hostTensor('float32', new Float32Array(10_000), [100, 100])
const binding = program.bind([{ x: tensor() }], { y: tensor() })
port.post('running')
for (;;) await binding.run()
