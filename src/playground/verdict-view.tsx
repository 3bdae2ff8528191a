/** The verdict: what the run says, in words and with its interval, what its seeds can and cannot show, and more seeds. */
import { Loaded, lazy } from './lazy.tsx'
import { addSeed, isChanged, run, running } from './run-state.ts'
import { failed } from './state.ts'
import { Term } from './term.tsx'

// Its figures come with a plotting library, which nobody waits for before the end.
const Verdict = lazy(() => import('../web/overview.tsx').then(({ Verdict }) => Verdict))

export function VerdictSection() {
  const now = run.value
  return (
    <section id="verdict" aria-labelledby="verdict-title">
      <h2 id="verdict-title">What it says</h2>
      {now?.results ? (
        <div class="hero">
          <Loaded of={Verdict} props={{ run: now }} />
        </div>
      ) : (
        <p class="lede">
          There is no verdict before all of it is trained and evaluated: a look at half of the data would
          spoil it.
        </p>
      )}
      <div class="what-seeds-show">
        <h3>What {now ? seedsInWords(now.seeds.length) : 'two seeds'} can show</h3>
        <p>
          {now?.results
            ? canShow(now.results.contrasts[0]?.smallestEffect ?? null)
            : 'A large difference: one that stands far above what another seed would change.'}
        </p>
        <h3>And what not</h3>
        <p>
          Two trainings of the same arm end apart, by chance alone. From two <Term word="seed">seeds</Term>{' '}
          one hardly knows how far apart, so the <Term word="interval" /> is wide, and a small difference
          comes out as <i>unresolved</i>: not as absent. More seeds make it narrower, and more{' '}
          <Term word="held out">held-out</Term> problems do. This is also a small policy in a small world:
          what it shows is whether the method moves something here, not what a large model would do.
        </p>
        {now?.results ? (
          <p class="row">
            <button
              type="button"
              class="primary"
              disabled={running.value || isChanged.value}
              onClick={() => addSeed().catch(failed)}
            >
              Add a seed
            </button>
            <span class="muted">Each arm is trained once more; what is there is kept.</span>
          </p>
        ) : null}
      </div>
    </section>
  )
}

const seedsInWords = (count: number) =>
  count === 1 ? 'one seed' : `${['two', 'three', 'four', 'five', 'six'][count - 2] ?? count} seeds`

const canShow = (smallest: number | null): string =>
  smallest === null
    ? 'A difference that stands far above what another seed would change.'
    : `This run would see a difference of ${smallest.toFixed(2)} or more four times in five. A smaller one it may well miss.`
