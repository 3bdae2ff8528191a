/**
 * The seam to ONNX Runtime: its native build for Node, or its WebAssembly build, which runs wherever JavaScript does. Both
 * take the same graphs and tensors and give the same numbers but for rounding. A browser has another file in this one's
 * place, runtime.web.ts.
 */
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { env } from 'onnxruntime-common'
import { type Binding, boundSession } from './binding.ts'
import type { Device } from './devices.ts'
import { directSessions } from './direct.ts'
import type { CreateSession } from './runnable.ts'

export type RuntimeName = 'native' | 'wasm'

/** The package of each. */
export const runtimePackages: Readonly<Record<RuntimeName, string>> = {
  native: 'onnxruntime-node',
  wasm: 'onnxruntime-web',
}

/** What runs a device's graphs. */
export const runtimeOf = (device: Device): RuntimeName => (device === 'wasm' ? 'wasm' : 'native')

type Package = Binding & { env: typeof env }

const require = createRequire(import.meta.url)
const loaded = new Map<RuntimeName, Promise<CreateSession>>()

/** Loads a runtime: once in a thread. Rejects with the system's reason where the native one does not load. */
export function loadRuntime(name: RuntimeName): Promise<CreateSession> {
  const known = loaded.get(name) ?? load(name)
  loaded.set(name, known)
  return known
}

async function load(name: RuntimeName): Promise<CreateSession> {
  if (name === 'wasm') return boundSession(await loadWasm(), 'wasm')
  const binding = boundSession(loadNative(), 'cpu')
  // koffi, by which the library is called directly, is a dependency apart: without it the binding gives the same numbers.
  return directSessions() ?? binding
}

// Not imported, since it is an optional dependency: an install without it is whole.
const loadNative = (): Package => require(runtimePackages.native) as Package

async function loadWasm(): Promise<Package> {
  const ort = await import('onnxruntime-web/wasm')
  const { wasm } = ort.env
  // A lane is one thread; more would need memory that threads share.
  wasm.numThreads = 1
  const file = join(dirname(require.resolve('onnxruntime-web/wasm')), 'ort-wasm-simd-threaded.wasm')
  const binary = await readFile(file)
  wasm.wasmBinary = new Uint8Array(binary).buffer
  return ort
}

let problem: string | null | undefined

/** Why the native runtime does not load here, in a few words; null where it does. */
export function nativeProblem(): string | null {
  if (problem === undefined) {
    try {
      loadNative()
      problem = null
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      problem = code === 'MODULE_NOT_FOUND' ? 'it is not installed' : message.split('\n')[0]
    }
  }
  return problem
}

/** The command that brings the native runtime. */
export function nativeInstall(): string {
  // Its own install script fetches a GPU's provider, which not every network lets through.
  return `npm install --ignore-scripts ${runtimePackages.native}@${runtimeVersion('wasm')}`
}

/** Where it computes unless told. */
export const defaultDevice = (): 'cpu' | 'wasm' => (nativeProblem() === null ? 'cpu' : 'wasm')

/** The version of a runtime's package, whether it loads or not. @throws where it is not installed. */
export function runtimeVersion(name: RuntimeName): string {
  const manifest = name === 'native' ? require('onnxruntime-node/package.json') : wasmManifest()
  return (manifest as { version: string }).version
}

/** Its manifest is none of the package's exports. */
function wasmManifest(): unknown {
  return require(join(dirname(require.resolve('onnxruntime-web/wasm')), '..', 'package.json'))
}
