/** Sessions by ONNX Runtime's own JavaScript: its Node binding, or its WebAssembly build. */
import type { InferenceSession } from 'onnxruntime-common'
import type { CreateSession } from './runnable.ts'

/** The part of ONNX Runtime's packages that makes sessions. */
export type Binding = Pick<typeof import('onnxruntime-common'), 'InferenceSession'>

export function boundSession({ InferenceSession }: Binding, provider: 'cpu' | 'wasm'): CreateSession {
  return async (bytes, { threads, constants }) => {
    const options: InferenceSession.SessionOptions = {
      executionProviders: [provider],
      intraOpNumThreads: threads,
      interOpNumThreads: 1,
      executionMode: 'sequential',
      graphOptimizationLevel: 'all',
      logSeverityLevel: 3,
      ...(constants && { externalData: [...constants].map(([path, data]) => ({ path, data })) }),
      // Shapes change from call to call: a plan of memory made for one is of no use to the next, and takes as much again.
      enableMemPattern: false,
    }
    const session = await InferenceSession.create(bytes, options)
    const inputs = session.inputNames
    return {
      inputs,
      run: (given) => session.run(Object.fromEntries(inputs.map((name, i) => [name, given[i]]))),
      release: () => session.release(),
    }
  }
}
