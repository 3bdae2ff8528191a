/**
 * The two sentences that lead everywhere: did training help, and did the change help. One short enough for a headline,
 * with one figure for each arm or pair behind it. Pure: reads results.json alone.
 */
import type { Results } from '../record/results.ts'
import { difference } from './numbers.ts'

export type Found = Pick<Results, 'training' | 'contrasts'>
type Verdict = Found['contrasts'][number]['verdict']

export interface Sentence {
  headline: string
  /** What its colour says; `none` where nothing was compared, `unresolved` where the verdicts are mixed. */
  tone: Verdict | 'none'
  /** The difference of each arm or pair with its interval. */
  figures: string[]
}

/** Each arm against the untrained model under its own protocol. */
export function trainingSentence({ training }: Pick<Found, 'training'>): Sentence {
  const n = training.length
  const words: Record<Verdict, string> = {
    moved: `Training helped${every(n, 'arm')}.`,
    'moved the wrong way': `Training hurt${every(n, 'arm')}.`,
    flat: 'Training made no difference worth having.',
    unresolved: 'Whether training helped is unresolved.',
  }
  return {
    ...sentence(training, words, {
      nothing: 'No arm is compared with its untrained model.',
      some: (helped, hurt) =>
        helped > 0
          ? `Training helped ${helped} of ${n} arms${hurt > 0 ? ` and hurt ${hurt}` : ''}.`
          : `Training hurt ${hurt} of ${n} arms.`,
    }),
    figures: training.map((one) => `${one.arm} ${difference(one)}`),
  }
}

/** The arms against one another, as the experiment's contrasts name them. */
export function changeSentence({ contrasts }: Pick<Found, 'contrasts'>): Sentence {
  const n = contrasts.length
  const words: Record<Verdict, string> =
    n === 1
      ? {
          moved: 'The change helped.',
          'moved the wrong way': 'The change hurt.',
          flat: 'The change makes no difference worth having.',
          unresolved: 'Whether the change helped is unresolved.',
        }
      : {
          moved: `${n === 2 ? 'Both' : `All ${n}`} changes helped.`,
          'moved the wrong way': `${n === 2 ? 'Both' : `All ${n}`} changes hurt.`,
          flat: 'No change makes a difference worth having.',
          unresolved: 'Whether any change helped is unresolved.',
        }
  return {
    ...sentence(contrasts, words, {
      nothing: 'No two arms are compared.',
      some: (helped, hurt) =>
        helped > 0
          ? `${helped} of ${n} changes helped${hurt > 0 ? ` and ${hurt} hurt` : ''}.`
          : `${hurt} of ${n} changes hurt.`,
    }),
    figures: contrasts.map((one) => `${one.arm} - ${one.against} ${difference(one)}`),
  }
}

/** As one line. Many figures are left to the lines below it. */
export function said({ headline, figures }: Sentence): string {
  return figures.length === 0 || figures.length > 3
    ? headline
    : `${headline.slice(0, -1)}: ${figures.join(', ')}.`
}

function sentence(
  compared: readonly { verdict: Verdict }[],
  words: Record<Verdict, string>,
  { nothing, some }: { nothing: string; some: (helped: number, hurt: number) => string },
): Omit<Sentence, 'figures'> {
  if (compared.length === 0) return { headline: nothing, tone: 'none' }
  const [{ verdict }] = compared
  if (compared.every((one) => one.verdict === verdict)) return { headline: words[verdict], tone: verdict }
  const count = (what: Verdict) => compared.filter((one) => one.verdict === what).length
  const [helped, hurt] = [count('moved'), count('moved the wrong way')]
  // Some without a difference, and some of which nothing is known: of all together nothing is known.
  if (helped + hurt === 0) return { headline: words.unresolved, tone: 'unresolved' }
  return {
    headline: some(helped, hurt),
    tone: hurt === 0 ? 'moved' : helped === 0 ? 'moved the wrong way' : 'unresolved',
  }
}

const every = (n: number, what: string) => (n === 1 ? '' : n === 2 ? ` both ${what}s` : ` all ${n} ${what}s`)
