/** Sizes of a task's two sets: checked, and cut from pools of problems. Pure. */
import { UserError } from '../errors.ts'
import { random } from '../random.ts'
import { decontaminate } from './decontaminate.ts'
import type { Problem, Split } from './types.ts'

export interface Sizes {
  train: number
  holdout: number
}

/** The reference experiment's: what a task gives where no sizes are named. */
export const referenceSizes: Sizes = { train: 512, holdout: 120 }

/** Throws a UserError unless both sizes are whole numbers, and at least 0. */
export function checkSizes({ train, holdout }: Sizes): void {
  for (const [name, size] of Object.entries({ train, holdout })) {
    if (!Number.isInteger(size) || size < 0) {
      throw new UserError(`${name} is ${size}: give the number of problems as a whole number of at least 0.`)
    }
  }
}

/** Refuses a problem with half a character: no file, address or model takes it as it is. `source` names its set. */
export function checkWhole(problems: readonly Problem[], source: string): void {
  for (const { id, question, gold, parts = [] } of problems) {
    const texts = [
      ['id', id],
      ['question', question],
      ['gold', gold],
      ...parts.map((part) => ['parts', part]),
    ]
    for (const [name, text] of texts) {
      if (/\p{Surrogate}/u.test(text)) {
        throw new UserError(
          `${source}: the ${name} of problem ${JSON.stringify(id)} has half of a character (a lone surrogate). Fix or remove it.`,
        )
      }
    }
  }
}

/**
 * Shuffles each pool with `seed` and takes its first problems; where there is one pool for both sets, the held-out
 * ones are taken first. Then decontaminates. `source` names the pools in errors.
 */
export function splitPools(
  pools: { train: readonly Problem[]; holdout: readonly Problem[] | null },
  sizes: Sizes,
  seed: number,
  source: string,
): Split {
  const take = (pool: readonly Problem[], from: number, count: number, name: string) => {
    if (from + count > pool.length) {
      throw new UserError(
        `${source} has ${pool.length} problems, and ${from + count} are asked for with ${name}: ask for fewer.`,
      )
    }
    return pool.slice(from, from + count)
  }
  checkWhole([...pools.train, ...(pools.holdout ?? [])], source)
  const trainPool = random('shuffle', seed).shuffle(pools.train)
  if (pools.holdout === null) {
    return decontaminate(
      take(trainPool, sizes.holdout, sizes.train, `holdout ${sizes.holdout} and train ${sizes.train}`),
      take(trainPool, 0, sizes.holdout, `holdout ${sizes.holdout}`),
    )
  }
  const holdoutPool = random('shuffle', seed).shuffle(pools.holdout)
  return decontaminate(
    take(trainPool, 0, sizes.train, `train ${sizes.train}`),
    take(holdoutPool, 0, sizes.holdout, `holdout ${sizes.holdout}`),
  )
}
