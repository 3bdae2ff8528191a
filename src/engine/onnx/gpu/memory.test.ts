/** The GPU lane on a device with little memory: the CPU, whose tensors are counted. On a device the runtime itself refuses. */
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { seedsOf } from '../../../random.ts'
import { openCheckpoint } from '../../checkpoint/folder.ts'
import type { NativeTensor, nativeProgram } from '../native.ts'
import { openGpuLane } from './lane.ts'

const memory = vi.hoisted(() => ({ used: 0, most: Number.POSITIVE_INFINITY }))

vi.mock('../native.ts', async (original) => {
  const native = await original<{ nativeProgram: typeof nativeProgram }>()
  const counted: typeof nativeProgram = async (...given) => {
    const program = await native.nativeProgram(...given)
    return {
      ...program,
      tensor(dtype, dims): NativeTensor {
        const bytes = dims.reduce((size, n) => size * n, 4)
        if (memory.used + bytes > memory.most)
          throw new Error(`Failed to allocate memory for requested buffer of size ${bytes}`)
        memory.used += bytes
        const tensor = program.tensor(dtype, dims)
        return {
          ...tensor,
          dispose() {
            memory.used -= bytes
            tensor.dispose()
          },
        }
      },
    }
  }
  return { ...native, nativeProgram: counted }
})

beforeEach(() => {
  memory.used = 0
  memory.most = Number.POSITIVE_INFINITY
})
afterEach(() => vi.restoreAllMocks())

async function laneWith(most: number) {
  const checkpoint = await openCheckpoint(fileURLToPath(new URL('../../fixtures/qwen2', import.meta.url)))
  memory.used = 0
  memory.most = most
  return openGpuLane(
    {
      config: checkpoint.config,
      weights: [...(await checkpoint.loadWeights())].map(([name, tensor]) => ({ name, ...tensor })),
      threads: 1,
      prefillTokens: 1000,
      folds: false,
      packsSteps: false,
      rotaryLength: 64,
      place: { device: 'cpu', precision: 'float32' },
    },
    'cpu',
  )
}

const requests = [1, 2].map((seed) => ({ prompt: [5, 6, 7, seed], seeds: seedsOf(3, seed) }))
const job = (count: number) =>
  ({
    kind: 'generate',
    overlay: null,
    requests: requests.slice(0, count),
    sampling: { maxTokens: 12, temperature: 1, topP: 1, stop: [] as number[] },
  }) as const
const nothing = () => {}

it('samples in halves what does not fit, the same, and gives back what it took for all at once', async () => {
  const whole = await (await laneWith(Number.POSITIVE_INFINITY)).generate(job(2), nothing, nothing)
  const forAll = memory.used
  await (await laneWith(Number.POSITIVE_INFINITY)).generate(job(1), nothing, nothing)
  const forHalf = memory.used
  expect(forHalf).toBeLessThan(forAll)

  const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  const short = await laneWith(forAll - 1)
  const halves = await short.generate(job(2), nothing, nothing)
  expect(said.mock.calls.map(([text]) => text)).toEqual([
    'Memory does not suffice for 6 samples at once: going on with 3.\n',
  ])
  const tokens = (groups: typeof whole) => groups.map((group) => group.map((sample) => sample.tokens))
  expect(tokens(halves)).toEqual(tokens(whole))
  expect(memory.used).toBe(forHalf)
})

it('lets go of caches of other shapes first', async () => {
  const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  const alone = await laneWith(Number.POSITIVE_INFINITY)
  await alone.generate(job(2), nothing, nothing)
  const forAll = memory.used
  const short = await laneWith(forAll)
  await short.generate(job(1), nothing, nothing)
  await short.generate(job(2), nothing, nothing)
  expect(memory.used).toBe(forAll)
  expect(said).not.toHaveBeenCalled()
})
