/** The built-in engine: the model as ONNX graphs, run by ONNX Runtime in this process. */
import { UserError } from '../../errors.ts'
import { loadTokenizer, type TokenizerOptions } from '../../tokens/tokenizer.ts'
import { openCheckpoint } from '../checkpoint/folder.ts'
import type { Engine } from '../contract.ts'
import { openBase } from './base.ts'
import { deviceMemory } from './device.ts'
import { type Device, type FoundDevice, isHost } from './devices.ts'
import { defaultLimits, gpuLimits } from './limits.ts'
import { openOn } from './open.ts'
import { frozenPolicy, loraPolicy } from './policy.ts'
import {
  defaultDevice,
  nativeInstall,
  nativeProblem,
  runtimeOf,
  runtimePackages,
  runtimeVersion,
} from './runtime.ts'

export interface OnnxEngineOptions extends TokenizerOptions {
  /** A checkpoint folder in Hugging Face's layout. */
  model: string
  /** What is recorded as the model's name; the folder when absent. */
  name?: string
  /** Where it computes: the processor unless told, by the native runtime or else by WebAssembly; `auto` takes the best that works here. */
  device?: Device | 'auto'
  /** CPU threads; all cores when absent. */
  threads?: number
}

export async function openOnnxEngine(options: OnnxEngineOptions): Promise<Engine> {
  const { model, name = model, threads } = options
  if (threads !== undefined && (!Number.isInteger(threads) || threads < 1)) {
    throw new UserError(`threads is ${threads}: give a whole number of at least 1`)
  }
  const checkpoint = await openCheckpoint(model)
  const { config } = checkpoint
  const tokenizer = await loadTokenizer(model, options)
  const on = async (place: FoundDevice): Promise<Engine> => {
    const limits = isHost(place.device)
      ? defaultLimits(config, threads, place.device)
      : gpuLimits(config, await deviceMemory(place.device), place)
    const runtime = runtimeOf(place.device)
    const missing = runtime === 'wasm' ? nativeProblem() : null
    const base = openBase(config, await checkpoint.loadWeights(), limits, { givesUp: true, place })
    return {
      info: {
        engine: 'onnx',
        device: describe(place),
        model: name,
        parameters: base.parameters,
        versions: { [runtimePackages[runtime]]: runtimeVersion(runtime) },
      },
      notices: [
        ...(missing === null
          ? []
          : [
              `Computing by WebAssembly, some three times slower than the native runtime, which does not load here ` +
                `(${missing}): ${nativeInstall()} brings it.`,
            ]),
        ...(tokenizer.hasTemplate
          ? []
          : [
              `${name} has no chat template: its prompts are written as plain text, "User: ..." and "Assistant:", which ` +
                'suits a model that was never trained to chat and no other.',
            ]),
      ],
      tokenizer,
      contextLength: config.contextLength,
      async createPolicy({ lora } = {}) {
        return lora === undefined ? frozenPolicy(base) : loraPolicy(base, name, lora)
      },
      close: () => base.close(),
    }
  }
  const { engine, notice } = await openOn(options.device ?? defaultDevice(), on)
  return notice === null ? engine : { ...engine, notices: [notice, ...(engine.notices ?? [])] }
}

function describe({ device, precision, gpu }: FoundDevice): string {
  if (gpu !== undefined) return `${device} (${gpu.name})`
  return precision === 'float16' ? `${device}, half precision` : device
}
