import { describe, expect, it } from 'vitest'
import { defineExperiment } from '../experiment/config.ts'
import type { FoundModels } from '../experiment/engine.ts'
import { recordOf } from '../experiment/record.ts'
import { withFlags } from './flags.ts'

const urls = ['http://a:8000', 'http://b:8000']
const flags = { engine: 'tinker', url: urls, model: 'Qwen/Qwen3-4B' }

describe('flags', () => {
  it('win over every arm', () => {
    const a = {
      train: { steps: 7, lora: { rank: 8, alpha: 4 } },
      sampling: { trained: { temperature: 0.5 }, context: { topP: 0.9 } },
    }
    const experiment = defineExperiment({ arms: { a, b: {} } })
    const { arms } = withFlags(experiment, { steps: 2, loraAlpha: 32, temperature: 0.8 })
    for (const { train, sampling } of Object.values(arms)) {
      expect([train.steps, train.lora.alpha]).toEqual([2, 32])
      expect([sampling.trained.temperature, sampling.context.temperature]).toEqual([0.8, 0.8])
    }
    expect([arms.a.train.lora.rank, arms.a.sampling.context.topP]).toEqual([8, 0.9])
  })
})

describe('flags of the engine tinker', () => {
  it('name servers, a model there, and what servers fix', () => {
    const own = defineExperiment({
      train: { lora: { rank: 8 } },
      sampling: { train: { context: { topP: 0.5 } } },
    })
    const experiment = withFlags(own, { ...flags, temperature: 1, loraAlpha: 32 })
    expect(experiment.engine).toEqual({ name: 'tinker', urls, tokenizer: null })
    for (const { train, sampling } of Object.values(experiment.arms)) {
      expect(train.lora).toEqual({ rank: 8, alpha: 32 })
      expect(sampling.context).toEqual({ temperature: 1, topP: 0.5 })
    }
    expect(experiment.evaluation.sampling.temperature).toBe(1)
  })

  it('may name other servers for the same experiment', async () => {
    const [here, there] = await Promise.all(
      urls.map((url) => {
        const experiment = withFlags(defineExperiment(), { ...flags, url: [url] })
        const found: FoundModels = new Map([
          [flags.model, { name: 'm', folder: '', commit: null, sha256: 'f00' }],
        ])
        return recordOf(experiment, found, { train: [], holdout: [], dropped: 0 })
      }),
    )
    expect(here.identity).toEqual(there.identity)
  })

  it('are refused where one is missing or belongs to the other engine', () => {
    const refused = (over: object) => () => withFlags(defineExperiment(), { ...flags, ...over })
    expect(refused({ url: undefined })).toThrow(/needs a server: give --url/)
    expect(refused({ model: undefined })).toThrow(/needs --model/)
    expect(refused({ engine: undefined })).toThrow(/give --engine tinker too/)
    expect(refused({ threads: 2 })).toThrow(/engine.threads is of the engine onnx/)
  })
})
