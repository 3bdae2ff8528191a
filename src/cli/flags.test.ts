import { describe, expect, it } from 'vitest'
import type { ProtocolChoices } from '../board/protocol.ts'
import { board } from '../board/protocols.ts'
import { own } from '../board/sights.ts'
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

  it('win over an arm’s model, and a round’s temperature', () => {
    const sampling = { train: { temperature: 0.2, topP: 1 }, evaluation: { topP: 0.5 } }
    const protocol: ProtocolChoices = {
      name: 'two rounds',
      rounds: [
        { name: 'note', tokens: 'note', sampling },
        { name: 'reply', tokens: 'reply', sees: own },
      ],
    }
    const experiment = defineExperiment({ arms: { a: { protocol, model: 'other/model' }, b: { protocol } } })
    const { arms } = withFlags(experiment, { model: 'owner/model', temperature: 0.8 })
    for (const { policies, protocol, sampling } of Object.values(arms)) {
      expect(policies.policy.model).toBe('owner/model')
      // A round that says nothing of it draws at the arm's.
      expect(protocol.rounds.map((round) => round.sampling)).toEqual([
        { train: { topP: 1 }, evaluation: { topP: 0.5 } },
        { train: {}, evaluation: {} },
      ])
      expect([sampling.trained.temperature, sampling.context.temperature]).toEqual([0.8, 0.8])
    }
    // Left out, each has its own.
    const { a } = withFlags(experiment, { steps: 1 }).arms
    expect([a.policies.policy.model, a.protocol.rounds[0].sampling]).toEqual(['other/model', sampling])
  })

  it('are refused by name where an arm cannot be meant', () => {
    const seats = [{ policy: 'mate' }, {}, {}]
    const protocol = { ...board(), seats }
    const mate = defineExperiment({ arms: { a: { protocol, policies: { mate: { model: 'other/model' } } } } })
    expect(() => withFlags(mate, { model: 'owner/model' })).toThrow(
      /--model owner\/model .* the arm "a" has the policy "mate" with a model of its own \(other\/model\)/,
    )
    expect(withFlags(mate, { steps: 1 }).arms.a.policies.mate.model).toBe('other/model')
    const started = defineExperiment({ arms: { a: { adapter: './start' } } })
    expect(() => withFlags(started, { loraAlpha: 4 })).toThrow(
      /--lora-alpha 4 .* the arm "a" starts from .\/start/,
    )
    const frozen = { mate: { adapter: './start' } }
    const other = defineExperiment({ arms: { a: { protocol, policies: frozen } } })
    expect(() => withFlags(other, { loraAlpha: 4 })).toThrow(/starts from .\/start/)
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
