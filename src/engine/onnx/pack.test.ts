import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { packRows, planBatches } from './pack.ts'

const tokens = (min: number) => fc.array(fc.integer({ min: 1, max: 50 }), { minLength: min, maxLength: 12 })
const groups = fc.array(
  fc.record({ prompt: tokens(1), completions: fc.array(tokens(0), { maxLength: 5 }) }),
  {
    maxLength: 8,
  },
)
const options = fc.record({
  tokenBudget: fc.integer({ min: 1, max: 100 }),
  rowLimit: fc.integer({ min: 1, max: 60 }),
  lanes: fc.integer({ min: 1, max: 3 }),
})

describe('packing', () => {
  it('lets each completion token be predicted from its own prompt and what came before it', () => {
    fc.assert(
      fc.property(groups, options, (list, limits) => {
        const sequences = list.flatMap(({ prompt, completions }) =>
          completions.map((completion) => ({ prompt, completion })),
        )
        const completions = sequences.map(({ completion }) => completion)
        const seen = new Set<number>()
        for (const rows of planBatches(sequences, limits)) {
          const packed = packRows(rows, completions)
          const { time } = packed
          for (const { index, start, count } of packed.spans) {
            seen.add(index)
            const { prompt, completion } = sequences[index]
            expect([...packed.targets.subarray(start, start + count)]).toEqual([...completion])
            for (let t = 0; t < count; t++) {
              const at = packed.rows[start + t]
              const base = Math.floor(at / time) * time
              const line = packed.segments.subarray(base, at + 1)
              const own = packed.segments[at]
              const visible = [...line.keys()].filter((column) => line[column] === 0 || line[column] === own)
              // By position, what is visible is the prompt and the completion so far: nothing else, nothing twice.
              const context = visible
                .map((column) => [packed.positions[base + column], packed.tokens[base + column]])
                .sort(([a], [b]) => a - b)
              expect(context).toEqual([...prompt, ...completion.slice(0, t)].map((token, i) => [i, token]))
            }
          }
        }
        const wanted = sequences.flatMap(({ completion }, i) => (completion.length > 0 ? [i] : []))
        expect([...seen].sort((a, b) => a - b)).toEqual(wanted)
      }),
    )
  })

  it('keeps batches near the budget and shares them evenly among lanes', () => {
    const sequences = Array.from({ length: 48 }, (_, i) => ({
      prompt: Array.from({ length: 100 + (i % 7) }, (_, t) => t + i),
      completion: Array.from({ length: 50 }, (_, t) => t),
    }))
    const batches = planBatches(sequences, { tokenBudget: 1000, rowLimit: 2000, lanes: 2 })
    expect(batches.length % 2).toBe(0)
    for (const rows of batches) {
      expect(rows.reduce((sum, row) => sum + row.length, 0)).toBeLessThanOrEqual(1000 + 160)
    }
  })

  it('keeps to a budget in which a row costs more than its length', () => {
    const sequences = Array.from({ length: 20 }, (_, i) => ({
      prompt: Array.from({ length: 10 }, (_, t) => t + 100 * i),
      completion: Array.from({ length: 1 + 3 * i }, (_, t) => t),
    }))
    const rowCost = (length: number) => length * length
    const batches = planBatches(sequences, { tokenBudget: 10_000, rowCost, rowLimit: 200, lanes: 1 })
    const costs = batches.map((rows) => rows.reduce((sum, { length }) => sum + rowCost(length), 0))
    expect(batches.length).toBeGreaterThan(1)
    // A batch is over by less than the row that ended it.
    expect(Math.max(...costs)).toBeLessThan(10_000 + 67 ** 2)
  })

  it('computes a shared prompt once', () => {
    const prompt = [1, 2, 3, 4]
    const sequences = [[5, 6], [7, 8, 9], [5]].map((completion) => ({ prompt, completion }))
    const [[row], ...rest] = planBatches(sequences, { tokenBudget: 100, rowLimit: 100, lanes: 1 })
    expect(rest).toEqual([])
    expect(row).toEqual({ prompt, members: [0, 1, 2], length: 4 + 1 + 2 + 0 })
  })
})
