import type { Worker } from 'node:worker_threads'
import { describe, expect, it } from 'vitest'
import { random } from '../../random.ts'
import { type AdamState, adamState, adamStep, globalNorm } from './adam.ts'
import { sharedZeros, threadedAdam } from './threadedAdam.ts'

const options = {
  learningRate: 0.05,
  beta1: 0.9,
  beta2: 0.99,
  epsilon: 1e-8,
  weightDecay: 0.1,
  maxGradNorm: 1,
}
/** Enough for four threads, of unlike lengths. */
const lengths = [70_001, 3, 1, 90_000, 40_000, 0, 39_999, 20_000]

interface Arrays {
  parameters: Float32Array[]
  gradients: Float32Array[]
  state: AdamState
}
interface Twins {
  plain: Arrays
  shared: Arrays
  drawGradients(): void
}

/** The same random numbers in plain and in shared memory, with the state of each. */
function twins(seed: number): Twins {
  const stream = random('threaded adam', seed)
  const plain = lengths.map((length) => new Float32Array(length))
  const shared = lengths.map(sharedZeros)
  const draw = (into: readonly Float32Array[], copies: readonly Float32Array[]) =>
    into.forEach((array, a) => {
      for (let i = 0; i < array.length; i++) array[i] = stream.normal()
      copies[a].set(array)
    })
  draw(plain, shared)
  const gradients = lengths.map((length) => new Float32Array(length))
  const sharedGradients = lengths.map(sharedZeros)
  return {
    plain: { parameters: plain, gradients, state: adamState(plain) },
    shared: {
      parameters: shared,
      gradients: sharedGradients,
      state: adamState(shared, sharedZeros),
    },
    drawGradients: () => draw(gradients, sharedGradients),
  }
}

function expectSame({ plain, shared }: Twins): void {
  expect(shared.state.step).toBe(plain.state.step)
  const arraysOf = ({ parameters, state }: Arrays) => [...parameters, ...state.first, ...state.second]
  const expected = arraysOf(plain)
  arraysOf(shared).forEach((array, i) => {
    expect(Buffer.from(array.buffer).equals(Buffer.from(expected[i].buffer))).toBe(true)
  })
}

describe.each([1, 3])('AdamW over %i threads', (count) => {
  it.each([1, Number.POSITIVE_INFINITY])(
    'takes the plain steps bit for bit, clipped to %d, of two trainables at once',
    async (maxGradNorm) => {
      const adam = threadedAdam(count)
      const pairs = [twins(1), twins(2)]
      const held = await Promise.all(
        pairs.map(({ shared }) => adam.hold(shared.parameters, shared.gradients, shared.state)),
      )
      for (let step = 0; step < 3; step++) {
        await Promise.all(
          pairs.map(async ({ plain, drawGradients }, t) => {
            drawGradients()
            const norm = await held[t].norm()
            const expected = globalNorm(plain.gradients)
            expect(Math.abs(norm - expected)).toBeLessThan(1e-12 * expected)
            adamStep(plain.parameters, plain.gradients, plain.state, norm, { ...options, maxGradNorm })
            await held[t].step(norm, { ...options, maxGradNorm })
          }),
        )
      }
      pairs.forEach(expectSame)
      await adam.close()
    },
  )
})

it('gives the same norm for any number of threads', async () => {
  const { shared, drawGradients } = twins(3)
  drawGradients()
  const norms = await Promise.all(
    [1, 2, 4].map(async (count) => {
      const adam = threadedAdam(count)
      const held = await adam.hold(shared.parameters, shared.gradients, shared.state)
      const norm = await held.norm()
      await adam.close()
      return norm
    }),
  )
  expect(new Set(norms).size).toBe(1)
})

it('opens no more threads than the arrays are worth, and ends them when closed', async () => {
  const opened: Worker[] = []
  const watch = (worker: Worker) => opened.push(worker)
  process.on('worker', watch)
  const adam = threadedAdam(64)
  const { shared } = twins(4)
  const held = await adam.hold(shared.parameters, shared.gradients, shared.state)
  process.off('worker', watch)
  expect(opened).toHaveLength(4)
  expect(opened.every(({ threadId }) => threadId > 0)).toBe(true)
  const pending = held.norm()
  const refused = expect(pending).rejects.toThrow('the engine was closed')
  await adam.close()
  await refused
  expect(opened.every(({ threadId }) => threadId === -1)).toBe(true)
  await expect(held.norm()).rejects.toThrow('the engine was closed')
  await expect(adam.hold([], [], adamState([]))).rejects.toThrow('the engine was closed')
})

it('rejects a call that fails in a thread, and serves the others on', async () => {
  const adam = threadedAdam(2)
  const gone = twins(5).shared
  const other = twins(6).shared
  const [first, second] = await Promise.all(
    [gone, other].map(({ parameters, gradients, state }) => adam.hold(parameters, gradients, state)),
  )
  await first.release()
  await expect(first.norm()).rejects.toThrow('trainable 0 was let go')
  expect(await second.norm()).toBe(0)
  await adam.close()
})

it('refuses arrays that its threads would copy', async () => {
  const { plain } = twins(7)
  const adam = threadedAdam(1)
  await expect(adam.hold(plain.parameters, plain.gradients, plain.state)).rejects.toThrow('shared memory')
})
