/** How an arm's evaluations were drawn and graded, and what of two runs keeps their arms from being compared. Pure. */
import type { EvaluationFacts } from '../stats/index.ts'
import type { RunRecord, SharedRecord } from './schema.ts'

/** A verifier with its version, as records name it. */
export const graderName = ({ name, version }: { name: string; version: string }): string =>
  `${name} ${version}`

/** `cutShare`: of its final posts, those that the token limit ended. */
export function evaluationFacts(
  { shared, arms }: RunRecord['identity'],
  arm: string,
  cutShare: number,
): EvaluationFacts {
  const { rounds } = arms[arm].protocol
  const { sampling, readTokens } = shared.evaluation
  const last = { ...sampling, ...rounds[rounds.length - 1].sampling.evaluation }
  return {
    grader: graderName(shared.grader),
    sampling: {
      'prompt tokens': readTokens ?? 'all that fit',
      'final temperature': last.temperature,
      'final top-p': last.topP,
      'final tokens': rounds[rounds.length - 1].maxTokens,
    },
    cutShare,
  }
}

/** What must be the same for arms of two runs to be compared, beside the held-out problems, each in words. */
export const decisive: readonly [what: string, told: (shared: SharedRecord) => string][] = [
  ['tasks differ', ({ task }) => task.name],
  ['verifiers differ', ({ grader }) => graderName(grader)],
  [
    'evaluations drew differently',
    ({ evaluation: { sampling } }) => `temperature ${sampling.temperature}, top-p ${sampling.topP}`,
  ],
  [
    'prompts had different limits',
    ({ evaluation: { readTokens } }) => (readTokens === null ? 'what fits' : `${readTokens} tokens`),
  ],
  ['chat templates were given different arguments', ({ template }) => JSON.stringify(template)],
]
