import { describe, expect, it } from 'vitest'
import type { RunView } from '../view/types.ts'
import { differingSettings, settingGroups } from './settings.ts'

/** A run of arms that differ in their learning rates and in who reads whom. */
const run = (rates: Record<string, number>, shared: Record<string, unknown> = { task: { name: 'x' } }) =>
  ({
    model: 'm',
    seeds: [17],
    arms: Object.keys(rates),
    baseline: 'a',
    contrasts: [],
    identity: {
      shared,
      arms: Object.fromEntries(
        Object.entries(rates).map(([arm, learningRate]) => [
          arm,
          { train: { learningRate }, protocol: { rounds: [{ name: 'note', sights: [[[0, 1]]] }] } },
        ]),
      ),
    },
  }) as unknown as RunView

describe('settings', () => {
  it('that all arms have alike are said once, the others by arm', () => {
    const { shared, arms } = settingGroups(run({ a: 1, b: 2 }))
    expect(shared).toContainEqual(['task.name', 'x'])
    expect(shared).toContainEqual(['protocol.rounds.1.name', 'note'])
    expect(shared.map(([name]) => name)).not.toContain('train.learningRate')
    expect(arms).toEqual([
      { arm: 'a', own: [['train.learningRate', '1']] },
      { arm: 'b', own: [['train.learningRate', '2']] },
    ])
    // Who reads whom is told by the names of the sights.
    expect(shared.map(([name]) => name).join()).not.toContain('sights')
  })

  it('of two runs are compared as a whole where each has one value, and by arm where one has several', () => {
    const found = (...runs: ReturnType<typeof run>[]) =>
      differingSettings(runs).map(({ name, values }) => [name, ...values])
    expect(found(run({ a: 1, b: 1 }), run({ a: 3, b: 3 }))).toEqual([['train.learningRate', '1', '3']])
    expect(found(run({ a: 1, b: 1 }), run({ a: 1, b: 3 }))).toEqual([['b: train.learningRate', '1', '3']])
    expect(found(run({ a: 1 }), run({ a: 1 }, { task: { name: 'x' }, level: 2 }))).toEqual([
      ['level', undefined, '2'],
    ])
    expect(found(run({ a: 1 }), run({ a: 1 }))).toEqual([])
    // Of three, the two that agree are named beside the third.
    expect(found(run({ a: 1 }), run({ a: 1 }), run({ a: 2 }))).toEqual([
      ['train.learningRate', '1', '1', '2'],
    ])
  })
})
