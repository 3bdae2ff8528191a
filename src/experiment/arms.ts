/** The two arms of an experiment. Data only: the command line needs no more to check its arguments. */

/** In the order of their jobs: `recipe` is the change, `baseline` what it is compared with. */
export const armNames = ['baseline', 'recipe'] as const
export type ArmName = (typeof armNames)[number]
