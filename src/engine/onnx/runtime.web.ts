/** ONNX Runtime in a browser: its WebAssembly build, which bundlers find through the package itself. */
import { env } from 'onnxruntime-common'
import { boundSession } from './binding.ts'
import type { CreateSession } from './runnable.ts'
import type { RuntimeName } from './runtime.ts'

export const runtimePackages: Readonly<Record<RuntimeName, string>> = {
  native: 'onnxruntime-node',
  wasm: 'onnxruntime-web',
}

/** A GPU too is spoken to by the package that holds the WebAssembly build (native.web.ts). */
export const runtimeOf = (): RuntimeName => 'wasm'

export async function loadRuntime(name: RuntimeName): Promise<CreateSession> {
  if (name === 'native') throw new Error('a browser has no native runtime')
  const ort = await import('onnxruntime-web/wasm')
  // A lane is one thread; more would need memory that threads share, and a page with headers of isolation.
  ort.env.wasm.numThreads = 1
  return boundSession(ort, 'wasm')
}

/** Nothing is missing that could be here. */
export const nativeProblem = (): null => null

/** No command brings what no browser can load. */
export const nativeInstall = (): string => ''

export const defaultDevice = () => 'wasm' as const

/** Its parts are released together, under one number. */
export const runtimeVersion = (): string => env.versions.common
