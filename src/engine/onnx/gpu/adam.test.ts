import { expect, it } from 'vitest'
import { random } from '../../../random.ts'
import { adamState, adamStep, globalNorm } from '../adam.ts'
import { graphAdam } from './adam.ts'

it('takes the steps that the plain one takes', async () => {
  const stream = random('graph adam')
  const draw = (size: number) => Float32Array.from({ length: size }, () => stream.normal())
  const plain = [draw(50), draw(7)]
  const graph = plain.map((array) => array.slice())
  const states = [adamState(plain), adamState(graph)]
  const adam = graphAdam(1)
  const options = {
    learningRate: 0.05,
    beta1: 0.9,
    beta2: 0.99,
    epsilon: 1e-8,
    weightDecay: 0.1,
    maxGradNorm: 1,
  }
  for (let step = 0; step < 5; step++) {
    const gradients = plain.map(({ length }) => draw(length))
    const norm = globalNorm(gradients)
    expect(await adam.norm(gradients)).toBeCloseTo(norm, 4)
    adamStep(plain, gradients, states[0], norm, options)
    await adam.step(graph, gradients, states[1], norm, options)
  }
  const largest = (a: Float32Array[], b: Float32Array[]) =>
    Math.max(...a.flatMap((array, i) => [...array].map((value, k) => Math.abs(value - b[i][k]))))
  expect(largest(plain, graph)).toBeLessThan(2e-6)
  expect(largest(states[0].second, states[1].second)).toBeLessThan(2e-6)
  expect(states[1].step).toBe(5)
})
