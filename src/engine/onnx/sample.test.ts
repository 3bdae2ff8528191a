import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { random } from '../../random.ts'
import { draw } from './sample.ts'

function logSoftmax(logits: readonly number[]): Float32Array {
  const largest = Math.max(...logits)
  const sum = logits.reduce((total, logit) => total + Math.exp(logit - largest), 0)
  return Float32Array.from(logits, (logit) => logit - largest - Math.log(sum))
}

/** The nucleus by its definition: sort all, take until the mass reaches topP. */
function nucleus(logprobs: Float32Array, topP: number): Map<number, number> {
  const order = [...logprobs.keys()].sort((a, b) => logprobs[b] - logprobs[a] || a - b)
  const kept = new Map<number, number>()
  let mass = 0
  for (const token of order) {
    if (mass >= topP) break
    kept.set(token, Math.exp(logprobs[token]))
    mass += Math.exp(logprobs[token])
  }
  for (const [token, probability] of kept) kept.set(token, probability / mass)
  return kept
}

const logits = fc.array(fc.double({ min: -20, max: 20, noNaN: true }), { minLength: 1, maxLength: 40 })
const uniform = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

describe('draw', () => {
  it('stays in the nucleus and gives the log-probability under it', () => {
    fc.assert(
      fc.property(logits, fc.double({ min: 0.01, max: 1, noNaN: true }), uniform, (values, topP, u) => {
        const logprobs = logSoftmax(values)
        const { token, samplingLogprob } = draw(logprobs, topP, u)
        if (topP === 1) {
          expect(samplingLogprob).toBe(logprobs[token])
        } else {
          const probability = nucleus(logprobs, topP).get(token)
          expect(probability).toBeDefined()
          expect(samplingLogprob).toBeCloseTo(Math.log(probability as number), 4)
        }
      }),
    )
  })

  it.each([1, 0.9, 0.5])('draws each token as often as it should at top-p %d', (topP) => {
    const logprobs = logSoftmax([2, 1.5, 0, -1, -1, -16, 1, 0.5])
    const expected =
      topP === 1 ? new Map([...logprobs].map((v, i) => [i, Math.exp(v)])) : nucleus(logprobs, topP)
    const counts = new Map<number, number>()
    const stream = random('draw', topP)
    const draws = 40_000
    for (let i = 0; i < draws; i++) {
      const { token } = draw(logprobs, topP, stream.next())
      counts.set(token, (counts.get(token) ?? 0) + 1)
    }
    for (const token of logprobs.keys()) {
      const p = expected.get(token) ?? 0
      const share = (counts.get(token) ?? 0) / draws
      expect(Math.abs(share - p)).toBeLessThanOrEqual(5 * Math.sqrt((p * (1 - p)) / draws) + 1e-4)
    }
  })

  it('always takes the most likely token where top-p is tiny', () => {
    fc.assert(
      fc.property(logits, uniform, (values, u) => {
        const logprobs = logSoftmax(values)
        const { token, samplingLogprob } = draw(logprobs, 1e-6, u)
        expect(logprobs[token]).toBe(Math.max(...logprobs))
        expect(samplingLogprob).toBeCloseTo(0, 5)
      }),
    )
  })
})
