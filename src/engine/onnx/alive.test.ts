/** An engine that nobody closes: its threads keep a process alive for as long as they work, and no longer. */
import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { writeTinyModel } from '../../selftest/tiny-model.ts'

let model: string
beforeAll(async () => {
  model = join(await mkdtemp(join(tmpdir(), 'alive-')), 'model')
  await writeTinyModel(model, 1)
})
afterAll(() => rm(join(model, '..'), { recursive: true }))

/** Runs a program in a process of its own, which ends by itself or is ended after a while (`code` is null then). */
function ran(program: string): Promise<{ code: number | null; said: string }> {
  const child = spawn(
    process.execPath,
    ['--import', import.meta.resolve('tsx'), '--input-type=module', '--eval', program],
    { timeout: 30_000 },
  )
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data) => {
      said += data
    })
  }
  return new Promise((resolve) => {
    child.on('close', (code) => resolve({ code, said }))
  })
}

const opened = () => `
  const { openOnnxEngine } = await import(${JSON.stringify(new URL('index.ts', import.meta.url).href)})
  const engine = await openOnnxEngine({ model: ${JSON.stringify(model)}, threads: 2 })
  const policy = await engine.createPolicy({ lora: { rank: 4, alpha: 8, seed: 1 } })
  const options = { maxTokens: 40, temperature: 1, topP: 1, stop: [] }
`

it('lets a process end that has asked nothing of it', async () => {
  expect(await ran(`${opened()} console.log('opened')`)).toEqual({ code: 0, said: 'opened\n' })
})

it('lets a process end whose program has ended', async () => {
  const { code, said } = await ran(`${opened()}
    const [[{ tokens, logprobs }]] = await policy.sample([{ prompt: [1, 2], seeds: [1] }], options)
    const datum = { prompt: [1, 2], completion: tokens, logprobs, advantages: tokens.map(() => 1) }
    await policy.forwardBackward([datum], { kind: 'policy_gradient', clipLow: 0.2, clipHigh: 0.2, temperature: 1 })
    console.log('took ' + tokens.length)`)
  expect({ code, said }).toEqual({ code: 0, said: 'took 40\n' })
})

it('lets a program go on that has closed it', async () => {
  // Letting a policy go is work of the threads that is still open then.
  const { code, said } = await ran(
    `${opened()}
    const [[{ tokens, logprobs }]] = await policy.sample([{ prompt: [1, 2], seeds: [1] }], options)
    const datum = { prompt: [1, 2], completion: tokens, logprobs, advantages: tokens.map(() => 1) }
    await policy.forwardBackward([datum], { kind: 'policy_gradient', clipLow: 0.2, clipHigh: 0.2, temperature: 1 })
    policy.dispose()
    await engine.close()
    console.log('closed')`,
  )
  expect({ code, said }).toEqual({ code: 0, said: 'closed\n' })
})

it('keeps a process alive for work that nobody waits for', async () => {
  const { code, said } = await ran(`${opened()}
    policy.sample([{ prompt: [1, 2], seeds: [1] }], options).then(([[{ tokens }]]) => console.log('took ' + tokens.length))`)
  expect({ code, said }).toEqual({ code: 0, said: 'took 40\n' })
})

it('so do the threads of the optimiser', async () => {
  const { code, said } = await ran(`
    const { sharedZeros, threadedAdam } = await import(${JSON.stringify(new URL('threadedAdam.ts', import.meta.url).href)})
    const zeros = () => [sharedZeros(8)]
    const adam = threadedAdam(1)
    const state = { step: 0, first: zeros(), second: zeros() }
    adam.hold(zeros(), zeros(), state).then((held) => held.norm()).then((norm) => console.log('norm ' + norm))`)
  expect({ code, said }).toEqual({ code: 0, said: 'norm 0\n' })
})
