/** The reference experiment's published figures, and whether a run is one that they say anything about. Pure data. */
import reference from '../../docs/reference-results.json' with { type: 'json' }
import type { RunView } from '../view/types.ts'

export const publishedSource = reference.source

/** pass@1 of each side by name as published, or null where the run is of another model or another task. */
export function published({ model, task }: Pick<RunView, 'model' | 'task'>): Record<string, number> | null {
  const modelName = reference.baseModel.split('/').at(-1) ?? ''
  if (task !== reference.task || !model.includes(modelName)) return null
  const { base, baseSharedBoard, baseline, recipe } = reference.arms
  return {
    'base-baseline': base.passAt1,
    'base-recipe': baseSharedBoard.passAt1,
    baseline: baseline.pooled,
    recipe: recipe.pooled,
  }
}
