/** The credit rules. */
export { leaveOneOut } from './leave-one-out.ts'
export { mix } from './mix.ts'
export { ownAnswer } from './own-answer.ts'
export { readersOf } from './readers-of.ts'
export { readersOnly } from './readers-only.ts'
export { subsets } from './subsets.ts'
export { team } from './team.ts'
export type { Assigned, Credit, EpisodeCredit, Tools } from './types.ts'
