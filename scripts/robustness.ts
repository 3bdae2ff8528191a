/**
 * Writes docs/robustness.md: what the campaigns found at length, from the lines that they keep, so that no number there is
 * typed, and where the tests of each kind of fault are:
 *
 *   npx tsx test/campaigns/NAME.ts --store && npx tsx scripts/robustness.ts
 */
import { access, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { storedCampaignSchema, storedCampaigns } from '../test/campaigns/rounds.ts'
import { replaceSections, table } from './markdown.ts'

const root = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url))
const count = (value: number) => value.toLocaleString('en')

/** What a round of each campaign is. */
const campaigns: Record<string, string> = {
  kills:
    'a run of the command line, killed up to eight times at its writes, within them, at any moment, by Ctrl-C or SIGTERM, then ended',
  'two-writers': 'three processes that want one run folder, up to six of them killed',
  folders: 'a run folder damaged in one to three ways, read, merged and gone on with',
  'full-disks': 'a disk that becomes full anywhere in a run, then has room',
  checkpoints: 'a model folder with one or two damaged files, opened',
  grading: 'answers, faces and replies, graded',
  'hostile-server': 'an endpoint or a Tinker server that answers oddly, played or trained against',
  'hostile-hub': 'a hub that answers oddly, downloaded from',
}

const stored = (await readFile(storedCampaigns, 'utf8'))
  .trim()
  .split('\n')
  .map((line) => storedCampaignSchema.parse(JSON.parse(line)))
const rows = Object.entries(campaigns).flatMap(([name, round]) =>
  stored
    .filter(({ campaign }) => campaign === name)
    .map(({ seed, rounds, outcomes, slowestMs, failures, commit }) => [
      `\`${name}\``,
      round,
      count(rounds),
      Object.entries(outcomes)
        .sort(([, a], [, b]) => b - a)
        .map(([kind, times]) => `${kind} ${count(times)}`)
        .join('; '),
      `${(slowestMs / 1000).toFixed(2)} s`,
      `${failures.length}`,
      `${seed}`,
      commit,
    ]),
)
/** The page names files; each is there. */
const page = root('docs/robustness.md')
for (const [, path] of (await readFile(page, 'utf8')).matchAll(/`((?:src|test)\/[\w./-]+\.\w+)`/g))
  await access(root(path))
await replaceSections(page, {
  campaigns: table(
    ['campaign', 'a round', 'rounds', 'what they came to', 'slowest', 'failures', 'seed', 'commit'],
    rows,
  ),
})
