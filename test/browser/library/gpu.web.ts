/** What the page's worker does with the browser's GPU, on a tiny model, or with an engine that stands for one. */
import { type Engine, openEngine } from '../../../src/browser.ts'
import { gradientDifference, scoreDifference } from '../../../src/engine/checks.ts'
import type { Policy } from '../../../src/engine/contract.ts'
import { openOn } from '../../../src/engine/onnx/open.web.ts'
import { LostError } from '../../../src/errors.ts'
import { writeTinyModel } from '../../../src/selftest/tiny-model.ts'

const model = '/models/tiny'

const tiny = (device: 'auto' | 'wasm' | 'webgpu', onNotice?: (text: string) => void): Promise<Engine> =>
  openEngine({ model, device, lanes: 1, onNotice })

/** An engine whose policies do their work by `change`. */
const changed = (engine: Engine, change: (policy: Policy) => Partial<Policy>): Engine => ({
  ...engine,
  async createPolicy(options) {
    const policy = await engine.createPolicy(options)
    return { ...policy, ...change(policy) }
  },
})

const later = () => new Promise((resolve) => setTimeout(resolve, 300))
const slow = (engine: Engine) =>
  changed(engine, ({ sample }) => ({ sample: (...given) => later().then(() => sample(...given)) }))

let gpu: Engine | undefined

export const gpuCalls = {
  tiny: () => writeTinyModel(model, 1),

  /** The device that `asked` leads to, and what was said. */
  async opens(asked: 'auto' | 'webgpu') {
    const notices: string[] = []
    const engine = await tiny(asked, (text) => notices.push(text))
    const { device } = engine.info
    await engine.close()
    return { device, notices }
  },

  /** Opens the GPU's engine, and says how far its numbers are from WebAssembly's. */
  async differences() {
    const host = await tiny('wasm')
    gpu = await tiny('webgpu')
    const scores = await scoreDifference(host, gpu, '/compared')
    const gradients = await gradientDifference(host, gpu, '/compared')
    await host.close()
    return { device: gpu.info.device, scores, gradients }
  },

  /** Scores until the GPU is lost, and says how that ends. */
  async lost() {
    const policy = await gpu!.createPolicy()
    for (;;) {
      try {
        await policy.logprobs([{ prompt: [1, 2], completion: [3] }], { temperature: 1 })
      } catch (error) {
        return { message: (error as Error).message, lost: error instanceof LostError }
      }
    }
  },

  /** What is chosen where a WebAssembly engine of some kind stands for the GPU, and what it does once its GPU is lost. */
  async choice(kind: 'wrong' | 'slow' | 'fast' | 'lost') {
    const adapter = { info: { vendor: 'stand-in' }, limits: { maxStorageBufferBindingSize: 2 ** 30 } }
    Object.defineProperty(navigator, 'gpu', {
      value: { requestAdapter: async () => adapter },
      configurable: true,
    })
    let lost = false
    let closed = 0
    const { engine, notice } = await openOn('auto', async ({ device, gpu }) => {
      const made = await tiny('wasm')
      const its: Engine = { ...made, close: () => made.close().then(() => void closed++) }
      if (device !== 'webgpu') return kind === 'slow' || kind === 'wrong' ? its : slow(its)
      const named = { ...its, info: { ...its.info, device: `webgpu (${gpu?.name})` } }
      if (kind === 'slow') return slow(named)
      return changed(named, (policy) => ({
        async logprobs(...given) {
          if (lost) throw new LostError('the GPU is gone')
          const scores = await policy.logprobs(...given)
          return kind === 'wrong' ? scores.map((row) => row.map((each) => each + 1e-3)) : scores
        },
      }))
    })
    const chosen = engine.info.device
    lost = kind === 'lost'
    const scored = async () => {
      const policy = await engine.createPolicy()
      const sequences = [{ prompt: [1, 2], completion: [3] }]
      return policy.logprobs(sequences, { temperature: 1 }).then(
        () => engine.info.device,
        (error: unknown) => (error instanceof LostError ? 'lost' : String(error)),
      )
    }
    const after = [await scored(), await scored()]
    await engine.close()
    return { chosen, notice, after, closed }
  },
}
