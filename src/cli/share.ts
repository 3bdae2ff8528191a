/** The commands that carry a run elsewhere, and those that say what it was for: arguments to calls, results to text. */
import { type Command, Option } from 'commander'
import { print, tell } from './terminal.ts'

export function shareCommands(root: Command): void {
  root
    .command('bundle')
    .description('write several runs as one folder of files, to open from disk or to put on any web server')
    .argument('<folders...>', 'run folders')
    .requiredOption('--out <folder>', 'where to write it; new or empty')
    .action(async (folders: string[], { out }: { out: string }) => {
      const { writeBundle } = await import('../report/bundle.ts')
      tell(`The bundle is in ${await writeBundle(folders, out)}\n`)
    })

  root
    .command('export')
    .description('write a run for other tools: its evaluations for Inspect, or all of it as Parquet')
    .argument('<folder>', 'run folder')
    .addOption(new Option('--to <format>', 'for whom').choices(['inspect', 'parquet']).makeOptionMandatory())
    .option('--out <folder>', "where to write it; inspect or parquet in the run's folder unless told")
    .action(async (folder: string, { to, out }: { to: 'inspect' | 'parquet'; out?: string }) => {
      const { exportRun } = await import('../exports/index.ts')
      const paths = await exportRun(folder, to, out)
      print(`${paths.join('\n')}\n`)
    })

  root
    .command('push')
    .description('put a trained adapter on the Hugging Face hub, with a model card of what was found')
    .argument('<folder>', 'folder of a finished run')
    .requiredOption('--to <owner/name>', 'the repository, made where it is not there; token: HF_TOKEN')
    .option('--job <name>', 'the training, such as recipe-s17; the only one unless told')
    .option('--policy <name>', 'which of several trained policies; the only one unless told')
    .option('--base-model <owner/name>', 'the base on the hub; as the run named it unless told')
    .option('--private', 'make a new repository private')
    .action(async (folder: string, flags: PushFlags) => {
      const { push } = await import('../publish/push.ts')
      const { url, files } = await push(folder, {
        repository: flags.to,
        job: flags.job,
        policy: flags.policy,
        baseModel: flags.baseModel,
        isPrivate: flags.private,
      })
      tell(`${files.join(', ')} are at ${url}\n`)
    })

  root
    .command('note')
    .description('say what a run is for, or with --remove nothing; shown in its report and in lists of runs')
    .argument('<folder>', 'run folder')
    .argument('[text]', 'the note; what it says now is printed where this is left out')
    .option('--remove', 'take the note away')
    .action(async (folder: string, text: string | undefined, { remove }: { remove?: boolean }) => {
      const { noteRun } = await import('../record/notes.ts')
      const { note } = await noteRun(folder, remove ? '' : text)
      print(note === '' ? '' : `${note}\n`)
    })

  root
    .command('tag')
    .description('give a run tags, or with --remove take them away; lists of runs are searched by them')
    .argument('<folder>', 'run folder')
    .argument('[tags...]', 'words; the tags that it has are printed')
    .option('--remove', 'take these tags away')
    .action(async (folder: string, tags: string[], { remove }: { remove?: boolean }) => {
      const { tagRun } = await import('../record/notes.ts')
      const all = (await tagRun(folder, { [remove ? 'remove' : 'add']: tags })).tags
      print(all.length === 0 ? '' : `${all.join(' ')}\n`)
    })
}

interface PushFlags {
  to: string
  job?: string
  policy?: string
  baseModel?: string
  private?: boolean
}
