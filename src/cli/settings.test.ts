import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { own, shared } from '../board/sights.ts'
import { defineExperiment } from '../experiment/config.ts'
import { withFlags } from './flags.ts'
import { withSettings } from './settings.ts'

const set = (...settings: string[]) => withSettings(defineExperiment(), settings)

describe('--set', () => {
  it('sets any setting of the experiment by its path', () => {
    const { arms, board, seeds, evaluation, baseline } = set(
      'train.learningRate=5e-4',
      'train.lora.rank=8',
      'train.tokens=null',
      'board.copies=3',
      'seeds=1,2,3',
      'evaluation.baseRuns=2',
      'sampling.evaluation.temperature=.5',
      'baseline=recipe',
    )
    for (const { train } of Object.values(arms)) {
      expect(train).toMatchObject({ learningRate: 5e-4, lora: { rank: 8, alpha: 32 }, tokens: null })
    }
    expect([board.copies, seeds, evaluation.baseRuns]).toEqual([3, [1, 2, 3], 2])
    expect([evaluation.sampling.temperature, baseline]).toEqual([0.5, 'recipe'])
  })

  it('sets one of an arm, of the built-in experiment too, and leaves the others', () => {
    const { arms } = set('arms.recipe.train.steps=80', 'arms.recipe.policies.policy.trained=true')
    expect([arms.baseline.train.steps, arms.recipe.train.steps]).toEqual([40, 80])
    expect(arms.recipe.policies.policy.trained).toBe(true)
    const mine = defineExperiment({ arms: { a: { reads: own, train: { steps: 3 } }, b: { reads: shared } } })
    const found = withSettings(mine, ['train.steps=9', 'arms.b.train.learningRate=1'])
    expect([found.arms.a.train.steps, found.arms.b.train.steps]).toEqual([3, 9])
    expect(found.arms.b.protocol.name).toBe('shared')
    // What it was laid over stays as it was.
    expect(mine.arms.b.train.steps).toBe(40)
  })

  it('sets by name what a file makes by a function', () => {
    const { arms, task } = set(
      'task=clues',
      'arms.baseline.protocol=debate',
      'arms.recipe.reads=ring',
      'arms.recipe.credit=team',
      'arms.recipe.train.boards=2',
    )
    expect(task.name).toBe('clues')
    expect([arms.baseline.protocol.name, arms.recipe.protocol.name]).toEqual(['debate 3', 'ring'])
    expect(arms.recipe.credit.name).toBe('team')
  })

  it('has the last word, over flags too', () => {
    const experiment = defineExperiment({ arms: { a: { train: { steps: 7 } }, b: {} } })
    const steps = (...settings: string[]) =>
      Object.values(withFlags(experiment, { steps: 20, set: settings }).arms).map(({ train }) => train.steps)
    expect(steps()).toEqual([20, 20])
    expect(steps('arms.a.train.steps=80')).toEqual([80, 20])
    expect(steps('train.steps=80')).toEqual([80, 80])
  })

  it.each([
    ['train.learningRate=-1', 'The experiment has train.learningRate = -1: it must be above 0.'],
    ['train.stepz=3', 'The experiment has an unknown setting "stepz" under train: remove or rename it.'],
    ['nonsense=3', 'The experiment has an unknown setting "nonsense": remove or rename it.'],
    ['board.copies=four', 'The experiment has board.copies = "four": it must be number.'],
    [
      'seeds=17,17',
      'The experiment has seeds = [17,17]: it must differ from each other, and 17 stands twice.',
    ],
    ['arms.recip.train.steps=3', 'There is no arm "recip": the arms are baseline, recipe.'],
    ['arms.recipe.train.steps=0', 'The experiment has arms.recipe.train.steps = 0: it must be at least 1.'],
    ['arms.recipe=3', '--set arms.recipe=3 sets no setting of an arm: give one, such as'],
    ['arms.recipe.reads=nobody', 'give arms.recipe.reads as one of own, shared, ring'],
    ['arms.recipe.credit.floor=2', 'give arms.recipe.credit as one of leaveOneOut, ownAnswer'],
    ['task.level=3', 'task is made by a function'],
    ['task=sudoku', 'There is no task "sudoku"'],
    ['grader.version=2', 'grader is made by a function'],
    [
      'train.steps',
      '--set train.steps sets nothing: give a path and a value, such as train.learningRate=5e-4.',
    ],
    ['=3', '--set =3 sets nothing'],
    ['__proto__.steps=3', 'sets nothing'],
  ])('refuses %s in one sentence', (setting, why) => {
    expect(() => set(setting)).toThrow(why)
  })

  it('takes any number, and any model by name, as it is', () => {
    fc.assert(
      fc.property(fc.double({ min: 1e-12, max: 1e6, noNaN: true }), (rate) => {
        expect(set(`train.learningRate=${rate}`).arms.recipe.train.learningRate).toBe(rate)
      }),
    )
    for (const model of ['owner/name@main', './folder with = and , in it', 'a"b']) {
      expect(set(`model=${model}`).model).toBe(model)
    }
  })
})
