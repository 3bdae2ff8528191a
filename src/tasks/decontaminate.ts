/**
 * Keeps held-out problems out of training: drops the training problems whose text a held-out problem covers. Pure.
 *
 * The rule is the reference's: a training problem goes when one held-out problem shares 8-word runs with it that
 * cover at least 80% of its words (8-grams as in Tulu 3, arXiv:2411.15124; 80% as in Llama 2, arXiv:2307.09288).
 * Texts of fewer than 8 words have no such run and go when their words are the same.
 */
import type { Problem, Split } from './types.ts'

const runLength = 8
const coverage = 0.8

/** Lower-case words and numbers of all that a problem tells, its parts first; everything else separates them. */
function wordsOf({ question, parts = [] }: Problem): string[] {
  return (
    [...parts, question]
      .join(' ')
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? []
  )
}

/** Drops from `train` what overlaps `holdout`, and counts it. Time grows with the texts, not with their pairs. */
export function decontaminate(train: readonly Problem[], holdout: readonly Problem[]): Split {
  const whole = new Set<string>()
  const holdersOf = new Map<string, number[]>()
  holdout.forEach((problem, index) => {
    const words = wordsOf(problem)
    whole.add(words.join(' '))
    for (const run of new Set(runsOf(words))) {
      const holders = holdersOf.get(run)
      if (holders) holders.push(index)
      else holdersOf.set(run, [index])
    }
  })
  const overlaps = (words: readonly string[]) => {
    if (whole.has(words.join(' '))) return true
    /** For each held-out problem: words covered so far, and the position after the last one. */
    const covered = new Map<number, { words: number; end: number }>()
    return runsOf(words).some((run, start) =>
      (holdersOf.get(run) ?? []).some((holder) => {
        const before = covered.get(holder) ?? { words: 0, end: 0 }
        const end = start + runLength
        const now = { words: before.words + end - Math.max(start, before.end), end }
        covered.set(holder, now)
        return now.words >= coverage * words.length
      }),
    )
  }
  const kept = train.filter((problem) => !overlaps(wordsOf(problem)))
  return { train: kept, holdout: [...holdout], dropped: train.length - kept.length }
}

function runsOf(words: readonly string[]): string[] {
  const runs: string[] = []
  for (let start = 0; start + runLength <= words.length; start++) {
    runs.push(words.slice(start, start + runLength).join(' '))
  }
  return runs
}
