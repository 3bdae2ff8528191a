import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { adapterShape } from '../checkpoint/adapter.ts'
import { openCheckpoint } from '../checkpoint/folder.ts'
import type { Sequence } from '../contract.ts'
import { type Base, openBase } from './base.ts'
import { defaultLimits } from './limits.ts'
import { frozenPolicy, loraPolicy } from './policy.ts'

// PEFT made these adapters and computed with them (test/golden/adapters.py).
const fixtures = fileURLToPath(new URL('../fixtures/', import.meta.url))
const { honoured } = JSON.parse(readFileSync(join(fixtures, 'adapters/golden.json'), 'utf8')) as {
  honoured: Record<string, number[][]>
}
const { sequences } = JSON.parse(readFileSync(join(fixtures, 'llama/golden.json'), 'utf8')) as {
  sequences: Sequence[]
}

let base: Base
let scratch: string
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'adapters-'))
  const { config, loadWeights } = await openCheckpoint(join(fixtures, 'llama'))
  base = openBase(config, await loadWeights(), defaultLimits(config, 1))
})
afterAll(async () => {
  await base.close()
  await rm(scratch, { recursive: true })
})

async function logprobs(folder: string): Promise<Float32Array[]> {
  const policy = loraPolicy(base, 'llama', { ...(await adapterShape(folder)), seed: 0 })
  await policy.load(folder)
  const found = await policy.logprobs(sequences, { temperature: 1 })
  await policy.save(scratch)
  policy.dispose()
  return found
}

test.each(Object.entries(honoured))(
  "computes what PEFT's %s does, and saves what computes the same",
  async (name, golden) => {
    const found = await logprobs(join(fixtures, 'adapters', name))
    const again = await logprobs(scratch)
    const unadapted = await frozenPolicy(base).logprobs(sequences, { temperature: 1 })
    expect(Math.abs(unadapted[0][0] - golden[0][0])).toBeGreaterThan(1e-3)
    golden.forEach((expected, i) => {
      expected.forEach((value, t) => {
        expect(Math.abs(found[i][t] - value)).toBeLessThan(1e-4)
        expect(Math.abs(again[i][t] - value)).toBeLessThan(1e-4)
      })
    })
  },
)
