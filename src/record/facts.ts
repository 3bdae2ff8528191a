/** How an arm's evaluations were drawn and graded, as the statistics hold two arms against each other. Pure. */
import type { EvaluationFacts } from '../stats/index.ts'
import type { RunRecord } from './schema.ts'

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
