/** Gradients of several packed batches in one run: they are summed on the device and come to the host once. */
import type { ModelConfig } from '../../checkpoint/config.ts'
import { emit } from '../../graph/emit.ts'
import * as ops from '../../graph/ops.ts'
import { constant, type DType, input, type Tensor } from '../../graph/tensor.ts'
import {
  type AdapterShape,
  adapterPairs,
  gradientOutputs,
  type LossKind,
  lossScaleInput,
  sequenceGraph,
  type Target,
} from '../programs.ts'

/**
 * For a provider that can loop.
 *
 * Inputs: a batch's tensors as for `sequenceProgram`, stacked and padded behind: `tokens`, `segments` int32, `positions`
 * int64 [batches, most rows, longest]; `order` int32 [longest]; `rows`, `targets` int32, `advantages`, `old` [batches, most
 * targets]. `sizes` int64 [batches, 2] are each batch's rows and length, which its `rows` are counted by; `lengths` int64
 * [batches, 1] the latter alone; `count` int64 [] the number of batches. Further `temperature`, `low`, `high`, `lossScale`
 * [], rotary tables, weights, adapter.
 * Outputs: `loss` [], `logprobs` [batches, most targets], and the gradients.
 */
export function trainingProgram(
  config: ModelConfig,
  adapter: AdapterShape,
  loss: LossKind,
  target: Target = {},
): Uint8Array {
  const stacked = (name: string, shape: readonly string[], dtype?: DType) =>
    input(name, ['batches', ...shape], dtype)
  const perToken = (name: string, dtype?: DType) => stacked(name, ['most rows', 'longest'], dtype)
  const inputs = {
    tokens: perToken('tokens', 'int32'),
    segments: perToken('segments', 'int32'),
    positions: perToken('positions', 'int64'),
    rows: stacked('rows', ['most targets'], 'int32'),
    targets: stacked('targets', ['most targets'], 'int32'),
    advantages: stacked('advantages', ['most targets']),
    old: stacked('old', ['most targets']),
  }
  const lossScale = lossScaleInput(target)
  const sizes = input('sizes', ['batches', 2], 'int64')
  const lengths = input('lengths', ['batches', 1], 'int64')
  const order = input('order', ['longest'], 'int32')
  const pairs = adapterPairs(config, adapter.rank)
  // Not a constant of that size, which would be kept.
  const zeros = [...pairs.values()].flatMap(({ a, b }) => [ops.mul(a, 0), ops.mul(b, 0)])
  let names: string[] = []
  const { state, collected } = ops.loop(
    input('count', [], 'int64'),
    [constant(0), ...zeros],
    (index, [sum, ...sums]) => {
      const at = (tensor: Tensor) => ops.gather(tensor, index)
      const size = at(sizes)
      const cut = (tensor: Tensor) => ops.leading(at(tensor), size, ['batch', 'time'])
      const batch = {
        tokens: cut(inputs.tokens),
        segments: cut(inputs.segments),
        positions: cut(inputs.positions),
        order: ops.leading(order, at(lengths), ['time']),
        rows: at(inputs.rows),
        targets: at(inputs.targets),
        advantages: at(inputs.advantages),
        old: at(inputs.old),
        lossScale,
      }
      const options = { adapter, trained: 'adapter', loss } as const
      const part = sequenceGraph(config, options, target, batch, pairs)
      names = [...part.gradients.keys()]
      return {
        goOn: null,
        state: [
          ops.add(sum, part.loss as Tensor),
          ...[...part.gradients.values()].map((gradient, i) => ops.add(sums[i], gradient)),
        ],
        collected: [part.logprobs],
      }
    },
  )
  const [total, ...gradients] = state
  const named = new Map(names.map((name, i) => [name, gradients[i]]))
  return emit('train', { loss: total, logprobs: collected[0], ...gradientOutputs(named, lossScale) }, target)
}
