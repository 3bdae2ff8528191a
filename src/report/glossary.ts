/**
 * What the columns and the words of a result say, in one sentence or two each: the one place for the hints of the pages,
 * the notes under table.md, and `--explain`. Pure: data, and how a word is found.
 */

/** The columns of the result table; docs/results.md has the same figures under the names of results.json. */
const columns = {
  arm: 'who was evaluated. "base, P": the untrained model under the protocol P. "NAME, s17": the arm NAME, trained with seed 17. "NAME, all": the arm over all its seeds.',
  'pass@1': 'share of final answers that are right, averaged over the held-out problems.',
  '95% CI':
    'interval of pass@1, for other held-out problems of the same kind. The luck of a training is not in it: the differences under the table have that too.',
  'pass@k': 'share of problems of which at least one of k final answers of one policy is right.',
  note_acc: 'share of notes that are right. Notes are the posts of the round before the last.',
  vote_acc:
    "share of boards whose notes' most common boxed answer is right: what a vote of the notes would get, without reading.",
  any_note: 'share of boards with at least one right note: the most that copying could reach.',
  switched: "share of replies whose answer is not that of the same seat's note.",
  rescued:
    'share of replies that are right where the same seat\'s note was wrong. In parentheses where a reader sees its own posts alone: no board rescued it, that is what a second try does by itself (the line "second try" under the table of a run sets the two beside each other).',
  misled:
    "share of replies that are wrong where the same seat's note was right. In parentheses where a reader sees its own posts alone: a second try lost it, and no board.",
  chars: 'mean length of a reply, in characters.',
  minutes: 'of training and evaluation, on the machine that ran them.',
} as const

/** The columns of the table by round that the other table has not, or has of the last round alone. */
const roundColumns = {
  round: 'one turn of the protocol, in which each of its speakers writes a post.',
  right: "share of the round's posts that are right.",
  vote_right: "share of boards on which the round's most common boxed answer is right.",
  any_right: 'share of boards with at least one right post in the round.',
  cut: 'share of posts that the token limit ended.',
} as const

/** The verdict's four words. */
const verdicts = {
  moved: 'the difference is real: its interval lies above 0; of a change, it is larger than the noise too.',
  'moved the wrong way': 'the same below 0.',
  flat: 'no difference worth having: effects of 0.03 or more are excluded, in both directions. It has to be earned.',
  unresolved: 'this run cannot tell. The line says why, and where it can, what would.',
} as const

/** The lines under the table. */
const lines = {
  training:
    'did training help: the arm less the untrained model under the same protocol. The interval is for other problems, other training seeds and other draws.',
  'A - B': 'did the change help: the arm A less the arm B, over all seeds, with such an interval.',
  comparison: 'one arm less another: it takes finished trainings of both.',
  'could have seen': 'the smallest true difference that a run of this size finds four times in five.',
  'set otherwise': 'the settings in which the two arms differ: what the difference may come from.',
  'to resolve it': 'how many seeds would resolve it, were the true difference the observed one.',
  looks: 'how often the verdict was read while seeds were added; the looks share one error rate.',
  'graded again': 'the stored replies were graded by a later version of the verifier.',
  warning: 'what could make the comparison unfair.',
  failed: 'a job that ended with an error: the same command tries it again and keeps the rest.',
  'second try':
    'of wrong notes, the share that the reply turns right, and of right ones, the share that it loses: with a board to read, and with the own note alone. The difference is what reading did.',
  noise:
    'how much one untrained model differs from itself when it is evaluated again. run_std is the standard deviation of its pass@1; band is the difference between two arms that this noise alone could make.',
  reward: 'mean correctness of the replies trained on, before the update.',
  'reply length': 'mean characters of a reply before and after training.',
  'cut off': 'share of texts that the token limit ended.',
  decontamination: 'training problems that overlap a held-out one were dropped before training.',
  'hack scan':
    'whether some feature of the text, such as its length, goes with the reward among the answers to one problem, in the last training batch: a lead to what is learned instead of the task. strongest is the largest correlation found; floor is the largest that shuffled rewards give 19 times in 20, so what lies below it is chance.',
  'notes cut': 'share of notes that the token limit ended.',
  'replies cut': 'share of replies that the token limit ended.',
  'over-optimised':
    'whether a stand-in for the target rose without the target. Here the reward is the target itself.',
} as const

export const glossary: Readonly<Record<string, string>> = {
  ...columns,
  ...roundColumns,
  ...verdicts,
  ...lines,
}

/** What is said of a column, or of a line under the table: `pass@4`, `hack scan, recipe-s17`, `recipe - baseline`. */
export function termOf(what: string): string | undefined {
  if (Object.hasOwn(glossary, what)) return what
  if (/^pass@\d+$/.test(what)) return 'pass@k'
  if (/ failed$/.test(what)) return 'failed'
  const [first] = what.split(', ')
  if (Object.hasOwn(glossary, first)) return first
  return / - /.test(what) ? 'A - B' : undefined
}

export const explain = (what: string): string | undefined => glossary[termOf(what) ?? '']

/** The terms of some columns and lines, each once and in the order of the glossary, with what is said of them. */
export function explained(whats: readonly string[]): [term: string, says: string][] {
  const terms = new Set(whats.flatMap((what) => termOf(what) ?? []))
  return Object.entries(glossary).filter(([term]) => terms.has(term))
}
