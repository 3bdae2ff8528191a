/** The logits of whole sequences, which no product path gives out: what the model is compared with others' by. */
import { loadAdapter } from '../../checkpoint/adapter.ts'
import { openCheckpoint } from '../../checkpoint/folder.ts'
import { emit } from '../../graph/emit.ts'
import { input } from '../../graph/tensor.ts'
import * as model from '../model.ts'
import { packRows, planBatches } from '../pack.ts'
import { loraA, loraB } from '../programs.ts'
import type { RuntimeName } from '../runtime.ts'
import { compile, floatData, floats, int32s, int64s, type Values } from '../session.ts'

export interface Logits {
  /** Logits of every position of a sequence, row-major [length, vocabulary]. */
  of(tokens: readonly number[]): Promise<Float32Array>
  close(): Promise<void>
}

/** Opens a checkpoint folder, and on it an adapter's folder where one is given. */
export async function openLogits(
  folder: string,
  options: { adapter?: string; threads?: number; runtime?: RuntimeName } = {},
): Promise<Logits> {
  const checkpoint = await openCheckpoint(folder)
  const { config } = checkpoint
  const half = config.headDim / 2
  const weight = model.parameters(config)
  const attention = model.fullAttention(
    config,
    { cos: input('cos', ['context', half]), sin: input('sin', ['context', half]) },
    input('positions', ['batch', 'time'], 'int64'),
    model.segmentMask({
      segments: input('segments', ['batch', 'time'], 'int32'),
      order: input('order', ['time'], 'int32'),
    }),
  )
  let linear = model.baseLinear(config, weight)
  const adapterValues: Record<string, Values[string]> = {}
  if (options.adapter !== undefined) {
    const { rank, alpha, projections } = await loadAdapter(options.adapter, config)
    for (const [name, { a, b }] of projections) {
      adapterValues[loraA(name)] = floats(a.data, a.shape)
      adapterValues[loraB(name)] = floats(b.data, b.shape)
    }
    const pair = (name: string) => {
      const { a, b } = projections.get(name)!
      return { a: input(loraA(name), a.shape), b: input(loraB(name), b.shape) }
    }
    linear = model.loraLinear(linear, pair, alpha / rank)
  }
  const hidden = model.hiddenStates(config, weight, linear, attention, {
    tokens: input('tokens', ['batch', 'time'], 'int32'),
    rows: input('rows', ['rows'], 'int32'),
  })
  const program = await compile(emit('logits', { logits: model.logits(config, weight, hidden) }), {
    runtime: options.runtime,
    threads: options.threads,
  })
  const weights = Object.fromEntries(
    [...(await checkpoint.loadWeights())].map(([key, { shape, data }]) => [key, floats(data, shape)]),
  )
  const { cos, sin } = model.rotaryTables(config, config.contextLength)
  const rotary = {
    cos: floats(cos, [config.contextLength, half]),
    sin: floats(sin, [config.contextLength, half]),
  }
  return {
    async of(tokens) {
      // The packer lays out what is scored; a token after the last makes the last one part of it.
      const whole = { prompt: tokens.slice(0, 1), completion: [...tokens.slice(1), 0] }
      const [rows] = planBatches([whole], { tokenBudget: 1, rowLimit: 1, lanes: 1 })
      const { time, ...packed } = packRows(rows, [whole.completion])
      const every = Array.from({ length: time }, (_, position) => position)
      const output = await program.run([
        {
          tokens: int32s(packed.tokens, [1, time]),
          positions: int64s(packed.positions, [1, time]),
          segments: int32s(packed.segments, [1, time]),
          order: int32s(every, [time]),
          rows: int32s(every, [time]),
        },
        adapterValues,
        weights,
        rotary,
      ])
      return floatData(output.logits)
    },
    close: () => program.release(),
  }
}
