/** Opens the engines that an experiment asks for, and names what decides their numbers. */
import { hex } from '../bytes.ts'
import { readModelConfig } from '../engine/checkpoint/config.ts'
import { fingerprint, tokenizerFingerprint } from '../engine/checkpoint/fingerprint.ts'
import type { Engine } from '../engine/contract.ts'
import { notHere } from '../engine/onnx/devices.ts'
import {
  defaultDevice,
  nativeInstall,
  nativeProblem,
  runtimeOf,
  runtimePackages,
  runtimeVersion,
} from '../engine/onnx/runtime.ts'
import { UserError } from '../errors.ts'
import { type LocatedModel, type LocateOptions, locateModel } from '../hub/locate.ts'
import { sha256 as hashing } from '../platform/hash.ts'
import { environment, packageVersion, platformVersions } from '../platform/machine.ts'
import { graderName } from '../record/facts.ts'
import type { Experiment, OnnxChoice } from './config.ts'

/** The experiment's model: what is here of it, and a fingerprint of what decides its numbers. */
export interface FoundModel extends LocatedModel {
  sha256: string
}

/**
 * Finds the experiment's model: a whole checkpoint, or for servers that hold the weights its tokenizer.
 *
 * @throws UserError where it cannot be had.
 */
export async function findModel(
  { model, engine }: Pick<Experiment, 'model' | 'engine'>,
  options: LocateOptions = {},
): Promise<FoundModel> {
  if (engine.name === 'onnx') {
    const located = await locateModel(model, { ...options, check: readModelConfig })
    return { ...located, sha256: await fingerprint(located.folder) }
  }
  const located = await locateModel(engine.tokenizer ?? model, { ...options, tokenizerOnly: true }).catch(
    (error: unknown) => {
      if (engine.tokenizer !== null || !(error instanceof UserError)) throw error
      throw new UserError(
        `The tokenizer of ${model} is neither a folder here nor on the hub by that name (${error.message}): give ` +
          '--tokenizer a folder or a model on the hub that has it.',
      )
    },
  )
  const files = await tokenizerFingerprint(located.folder)
  return { ...located, name: model, sha256: sha256(JSON.stringify([model, files])) }
}

/** Every model that an experiment's arms name, found: by the name that they give. */
export type FoundModels = ReadonlyMap<string, FoundModel>

/** Finds all models of the arms. */
export async function findModels(experiment: Experiment, options: LocateOptions = {}): Promise<FoundModels> {
  const found = new Map<string, FoundModel>()
  for (const { policies } of Object.values(experiment.arms)) {
    for (const { model } of Object.values(policies)) {
      if (found.has(model)) continue
      // Where the tokenizer lies is said of the experiment's own model alone.
      const { engine } = experiment
      const its =
        engine.name === 'tinker' && model !== experiment.model ? { ...engine, tokenizer: null } : engine
      found.set(model, await findModel({ model, engine: its }, options))
    }
  }
  return found
}

/** The engines of an experiment, one for each model, each opened when it is first needed. */
export interface Engines {
  of(model: string): Promise<Engine>
  /** Where those that are open compute. */
  devices(): Promise<string[]>
  close(): Promise<void>
}

export function openEngines(
  experiment: Experiment,
  found: FoundModels,
  onNotice: (text: string) => void = () => {},
  open: typeof openEngine = openEngine,
): Engines {
  const opened = new Map<string, Promise<Engine>>()
  return {
    of(model) {
      const known = opened.get(model) ?? open(experiment, found.get(model), onNotice)
      opened.set(model, known)
      return known
    },
    async devices() {
      const engines = await Promise.allSettled(opened.values())
      return engines.flatMap((one) => (one.status === 'fulfilled' ? [one.value.info.device] : []))
    },
    async close() {
      for (const engine of opened.values()) await engine.then((one) => one.close())
    },
  }
}

/** Opens the engine on a model of the experiment, which the caller may have found already. */
export async function openEngine(
  experiment: Experiment,
  found?: LocatedModel,
  onNotice: (text: string) => void = () => {},
): Promise<Engine> {
  const { folder, name } = found ?? (await findModel(experiment, { onNotice }))
  const { engine, template } = experiment
  // Loaded here, since a command that needs no engine should not wait for one.
  if (engine.name === 'tinker') {
    const { openTinkerEngine } = await import('../engine/tinker/index.ts')
    const key = environment('TINKER_API_KEY')
    return openTinkerEngine({ urls: engine.urls, key, model: name, tokenizer: folder, template, onNotice })
  }
  const { openOnnxEngine } = await import('../engine/onnx/index.ts')
  const opened = await openOnnxEngine({
    model: folder,
    name,
    device: engine.device,
    threads: engine.threads,
    template,
  })
  for (const notice of opened.notices ?? []) onNotice(notice)
  return opened
}

/** The versions that a result depends on, and Node's for the record. */
export function versions(experiment: Experiment): Record<string, string> {
  return { ...decidingVersions(experiment), ...platformVersions() }
}

/** The versions whose change makes an earlier run another experiment. */
export function decidingVersions({ grader, engine }: Experiment): Record<string, string> {
  return {
    'message-board': packageVersion,
    ...(engine.name === 'onnx' && runtimeVersions(engine)),
    grader: graderName(grader),
  }
}

/** Of `auto` the fallback alone is known: a GPU and the native CPU have one package. */
function runtimeVersions({ device }: OnnxChoice): Record<string, string> {
  const runtime = runtimeOf(device === 'auto' ? defaultDevice() : device)
  const problem = runtime === 'native' ? nativeProblem() : null
  if (problem !== null)
    throw notHere(device, `${runtimePackages.native}: ${problem} (${nativeInstall()} brings it)`)
  return { [runtimePackages[runtime]]: runtimeVersion(runtime) }
}

export function sha256(text: string): string {
  return hex(hashing().update(text).digest())
}
