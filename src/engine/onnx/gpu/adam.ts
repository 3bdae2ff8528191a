/** AdamW as a graph, for adapters whose update would keep one thread of the host busy longer than the GPU's step. */
import type { AdamOptions } from '../../contract.ts'
import { emit } from '../../graph/emit.ts'
import * as ops from '../../graph/ops.ts'
import { input } from '../../graph/tensor.ts'
import type { AdamState } from '../adam.ts'
import { compile, floatData, floats, type Program, scalar } from '../session.ts'

export interface GraphAdam {
  /** Global L2 norm over all arrays. */
  norm(gradients: readonly Float32Array[]): Promise<number>
  /** As `adamStep` of `../adam.ts`, in single precision. */
  step(
    parameters: readonly Float32Array[],
    gradients: readonly Float32Array[],
    state: AdamState,
    norm: number,
    options: AdamOptions,
  ): Promise<void>
}

/** `threads`: how many of the host's the update is spread over. */
export function graphAdam(threads: number): GraphAdam {
  let normProgram: Promise<Program> | null = null
  let stepProgram: Promise<Program> | null = null
  return {
    async norm(gradients) {
      normProgram ??= compile(squaresBytes(), { threads })
      const program = await normProgram
      let sum = 0
      for (const gradient of gradients) {
        const { squares } = await program.run([{ gradient: vector(gradient) }])
        sum += floatData(squares)[0]
      }
      return Math.sqrt(sum)
    },
    async step(parameters, gradients, state, norm, options) {
      stepProgram ??= compile(stepBytes(), { threads })
      const program = await stepProgram
      const { learningRate, beta1, beta2, epsilon, weightDecay, maxGradNorm } = options
      state.step++
      const settings = {
        scale: scalar(Number.isFinite(maxGradNorm) ? Math.min(1, maxGradNorm / (norm + 1e-6)) : 1),
        beta1: scalar(beta1),
        rest1: scalar(1 - beta1),
        beta2: scalar(beta2),
        rest2: scalar(1 - beta2),
        rate: scalar(learningRate / (1 - beta1 ** state.step)),
        correction2: scalar(Math.sqrt(1 - beta2 ** state.step)),
        epsilon: scalar(epsilon),
        decay: scalar(1 - learningRate * weightDecay),
      }
      for (const [p, parameter] of parameters.entries()) {
        const tensors = {
          parameter: vector(parameter),
          gradient: vector(gradients[p]),
          first: vector(state.first[p]),
          second: vector(state.second[p]),
        }
        const next = await program.run([tensors, settings])
        parameter.set(floatData(next['next parameter']))
        state.first[p].set(floatData(next['next first']))
        state.second[p].set(floatData(next['next second']))
      }
    },
  }
}

const vector = (data: Float32Array) => floats(data, [data.length])

function squaresBytes(): Uint8Array {
  const gradient = input('gradient', ['n'])
  return emit('squares', { squares: ops.sumAll(ops.mul(gradient, gradient)) })
}

function stepBytes(): Uint8Array {
  const tensor = (name: string) => input(name, ['n'])
  const number = (name: string) => input(name, [])
  const g = ops.mul(tensor('gradient'), number('scale'))
  const first = ops.add(ops.mul(tensor('first'), number('beta1')), ops.mul(g, number('rest1')))
  const second = ops.add(ops.mul(tensor('second'), number('beta2')), ops.mul(ops.mul(g, g), number('rest2')))
  const denominator = ops.add(ops.div(ops.sqrt(second), number('correction2')), number('epsilon'))
  const change = ops.div(ops.mul(first, number('rate')), denominator)
  const parameter = ops.sub(ops.mul(tensor('parameter'), number('decay')), change)
  return emit('adam', { 'next parameter': parameter, 'next first': first, 'next second': second })
}
