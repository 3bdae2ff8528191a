import { describe, expect, it } from 'vitest'
import { configRecord, defineExperiment } from '../experiment/config.ts'
import { withFlags } from './flags.ts'

const urls = ['http://a:8000', 'http://b:8000']
const flags = { engine: 'tinker', url: urls, model: 'Qwen/Qwen3-4B' }

describe('flags of the engine tinker', () => {
  it('name servers, a model there, and what servers fix', () => {
    const own = defineExperiment({
      train: { lora: { rank: 8 } },
      sampling: { train: { notes: { topP: 0.5 } } },
    })
    const experiment = withFlags(own, { ...flags, temperature: 1, loraAlpha: 32 })
    expect(experiment.engine).toEqual({ name: 'tinker', urls, tokenizer: null })
    expect(experiment.train.lora).toEqual({ rank: 8, alpha: 32 })
    expect(experiment.sampling.train.notes).toEqual({ temperature: 1, topP: 0.5 })
    expect(experiment.sampling.evaluation.replies.temperature).toBe(1)
  })

  it('may name other servers for the same experiment', () => {
    const [here, there] = urls.map((url) =>
      configRecord(withFlags(defineExperiment(), { ...flags, url: [url] })),
    )
    expect(here).toEqual(there)
  })

  it('are refused where one is missing or belongs to the other engine', () => {
    const refused = (over: object) => () => withFlags(defineExperiment(), { ...flags, ...over })
    expect(refused({ url: undefined })).toThrow(/needs a server: give --url/)
    expect(refused({ model: undefined })).toThrow(/needs --model/)
    expect(refused({ engine: undefined })).toThrow(/give --engine tinker too/)
    expect(refused({ threads: 2 })).toThrow(/engine.threads is of the engine onnx/)
  })
})
