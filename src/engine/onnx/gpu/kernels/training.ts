/** The operators of `graph/fused.ts`, by launches of training.cu. */
import type { ModelConfig } from '../../../checkpoint/config.ts'
import { NORM_GRADIENTS } from '../../../graph/fused.ts'
import type { OperatorTensor } from '../../operators.ts'
import type { Argument, Launch, Unit } from './launch.ts'
import type { KernelOperator } from './operators.ts'

/** Threads of a block over words of eight, and of one over a row of logits; the most of one over a row of activations. */
const WORD_THREADS = 256
const LOGIT_THREADS = 512
const MOST_ROW_THREADS = 512

const at = ({ pointer }: OperatorTensor): Argument => ({ pointer })
const NOTHING: Argument = { pointer: 0n }

const count = (dims: readonly number[]) => dims.reduce((product, size) => product * size, 1)
const rowsOf = ({ dims }: OperatorTensor) => count(dims.slice(0, -1))
const widthOf = ({ dims }: OperatorTensor) => dims[dims.length - 1]
const eachRow = (dims: readonly number[]) => [...dims.slice(0, -1), 1]

/** For a model whose widths are multiples of 8 (`unfit` of step.ts); its vocabulary need not be. */
export function trainingOperators({ hiddenSize }: ModelConfig): KernelOperator[] {
  const quads = hiddenSize / 4
  const steps = Math.ceil(quads / MOST_ROW_THREADS)
  const rowThreads = 32 * Math.ceil(quads / steps / 32)
  const unit: Unit = { files: ['blocks', 'training'], defines: { STEPS: steps } }

  const overWords = (kernel: string, tensors: readonly OperatorTensor[]): Omit<Launch, 'unit'>[] => {
    const words = count(tensors[0].dims) / 8
    const grid = [Math.ceil(words / WORD_THREADS), 1, 1] as const
    return [{ kernel, grid, threads: WORD_THREADS, arguments: [...tensors.map(at), { int: words }] }]
  }
  const overRows = (
    kernel: string,
    threads: number,
    of: OperatorTensor,
    given: readonly Argument[],
  ): Omit<Launch, 'unit'>[] => [{ kernel, grid: [rowsOf(of), 1, 1], threads, arguments: given }]

  /** Of the norm's result there are several gradients, to be added up, and one of the sum or none. */
  const normGradient = (parts: number, beside: boolean): KernelOperator => ({
    name: `${beside ? 'Add' : ''}RMSNormGradient${parts}`,
    inputs: [...Array<'float16'>(parts).fill('float16'), ...Array<'float32'>(beside ? 4 : 3).fill('float32')],
    outputs: ['float32', 'float16'],
    inPlace: beside ? [[parts, 0]] : [],
    unit,
    shapes: (inputs) => [inputs[parts], inputs[0]],
    launches({ inputs, outputs }) {
      const gradients = Array.from({ length: NORM_GRADIENTS }, (_, i) =>
        i < parts ? at(inputs[i]) : NOTHING,
      )
      return overRows('residual_norm_gradient', rowThreads, outputs[0], [
        ...gradients,
        ...(beside ? [] : [NOTHING]),
        ...inputs.slice(parts).map(at),
        ...outputs.map(at),
        { int: hiddenSize },
      ])
    },
  })

  return [
    {
      name: 'SwiGLU',
      inputs: ['float16', 'float16'],
      outputs: ['float16'],
      unit,
      shapes: ([gate]) => [gate],
      launches: ({ inputs, outputs }) => overWords('swiglu', [...inputs, ...outputs]),
    },
    {
      name: 'SwiGLUGradient',
      inputs: ['float16', 'float16', 'float16'],
      outputs: ['float16', 'float16'],
      inPlace: [
        [1, 0],
        [2, 1],
      ],
      unit,
      shapes: ([, gate, up]) => [gate, up],
      launches: ({ inputs, outputs }) => overWords('swiglu_gradient', [...inputs, ...outputs]),
    },
    {
      name: 'AddRMSNorm',
      inputs: ['float32', 'float16', 'float32'],
      outputs: ['float16', 'float32', 'float32'],
      attributes: { epsilon: 'float' },
      inPlace: [[0, 1]],
      unit,
      shapes: ([stream, part]) => [part, stream, eachRow(stream)],
      launches: ({ inputs, outputs, attributes: { epsilon } }) =>
        overRows('residual_norm', rowThreads, inputs[0], [
          ...[...inputs, ...outputs].map(at),
          { int: hiddenSize },
          { float: epsilon },
        ]),
    },
    ...[true, false].flatMap((beside) =>
      Array.from({ length: NORM_GRADIENTS }, (_, i) => normGradient(i + 1, beside)),
    ),
    {
      name: 'TargetLogprobs',
      inputs: ['float16', 'int32', 'float32'],
      outputs: ['float32', 'float32'],
      unit,
      shapes: ([, targets]) => [targets, targets],
      launches: ({ inputs, outputs }) =>
        overRows('target_logprobs', LOGIT_THREADS, inputs[0], [
          ...[...inputs, ...outputs].map(at),
          { int: widthOf(inputs[0]) },
        ]),
    },
    {
      name: 'LiftedShares',
      inputs: ['float16', 'float32', 'float32'],
      outputs: ['float16'],
      attributes: { lift: 'int' },
      inPlace: [[0, 0]],
      unit,
      shapes: ([logits]) => [logits],
      launches: ({ inputs, outputs, attributes: { lift } }) =>
        overRows('lifted_shares', LOGIT_THREADS, inputs[0], [
          ...[...inputs, ...outputs].map(at),
          { int: widthOf(inputs[0]) },
          { float: lift },
        ]),
    },
  ]
}
