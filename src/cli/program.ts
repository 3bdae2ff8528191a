/** The command line as a tree of commands: their arguments, options and help. What each does is loaded when it is asked for. */
import { createRequire } from 'node:module'
import { Argument, Command, Option } from 'commander'
import { sights } from '../board/sights.ts'
import { referenceSettings, smallPolicySettings } from '../experiment/defaults.ts'
import { completions, type Shell, shells } from './completion.ts'
import type { EvalFlags } from './eval.ts'
import type { OutputFlags, RunFlags } from './flags.ts'
import type { InfluenceFlags } from './influence.ts'
import { effectSize, listed, positiveNumber, seedList, shardNumber, wholeNumber } from './options.ts'
import type { PlaygroundFlags } from './playground.ts'
import type { PowerFlags } from './power.ts'
import type { SelftestFlags } from './selftest.ts'
import type { ServeFlags } from './serve.ts'
import { shareCommands } from './share.ts'
import { hasColour, printOwn, styled, tell } from './terminal.ts'

/** 0: fine; 2: something to mend in what was asked. */
export const exit = { defect: 1, user: 2 } as const

const { version } = createRequire(import.meta.url)('../../package.json') as { version: string }

const { problems, train, sampling, seeds } = smallPolicySettings

/** An option whose choices are offered by help and completion; what else may be given is checked where it is used. */
function offered(flags: string, description: string, choices: readonly string[]): Option {
  const option = new Option(flags, description)
  option.argChoices = [...choices]
  return option
}

const devices = ['cpu', 'wasm', 'cuda', 'webgpu', 'auto']

/** Adds the options that say which experiment it is, of all commands about one. */
function about(command: Command): Command {
  return command
    .optionsGroup("The experiment (defaults are the built-in one's; a flag wins over a file):")
    .option(
      '--model <model>',
      'checkpoint folder, or a model on the hub: owner/name or owner/name@revision (default: the policy that comes along)',
    )
    .addOption(
      offered(
        '--task <task>',
        `where the problems come from; or a .jsonl or .parquet file (default: word-problems)`,
        ['word-problems', 'clues', 'insight', 'gsm8k', 'svamp', 'math'],
      ),
    )
    .option('--holdout <n>', `held-out problems to evaluate on (default: ${problems.holdout})`, wholeNumber())
    .option(
      '--temperature <t>',
      `temperature of every draw (default: ${sampling.evaluation.temperature})`,
      positiveNumber,
    )
    .option(
      '--lora-alpha <alpha>',
      `the adapter adds alpha / rank of itself (default: ${train.lora.alpha}; ${referenceSettings.train.lora.alpha} with --model)`,
      positiveNumber,
    )
    .option(
      '--set <path=value>',
      'any setting by its path in the experiment file, such as train.learningRate=5e-4 or arms.recipe.train.steps=80; ' +
        'given again, another one; it has the last word',
      listed,
    )
    .optionsGroup('The engine:')
    .addOption(
      offered(
        '--device <device>',
        'where it computes; auto takes the best that works (default: cpu)',
        devices,
      ),
    )
    .option('--threads <n>', 'threads of the engine (default: all cores)', wholeNumber())
    .addOption(
      offered(
        '--engine <name>',
        'what computes; tinker: servers of the Tinker API, with the key in TINKER_API_KEY (default: onnx)',
        ['onnx', 'tinker'],
      ),
    )
    .option(
      '--url <url>',
      'with --engine tinker, a server; given again, another one with the same model',
      listed,
    )
    .option('--tokenizer <model>', "with --engine tinker, where the model's tokenizer is (default: --model)")
}

/** Adds the options that say how much is trained. */
const training = (command: Command): Command =>
  command
    .optionsGroup('Training:')
    .option('--steps <n>', `training steps (default: ${train.steps})`, wholeNumber())
    .option('--seeds <list>', `training seeds, such as 17,18,19 (default: ${seeds.join(',')})`, seedList)
    .option('--train <n>', `training problems (default: ${problems.train})`, wholeNumber())

/** Adds the options that say what is printed. */
const shown = (command: Command, json = 'print the results as JSON and nothing else'): Command =>
  command
    .optionsGroup('Output:')
    .option('--explain', 'say below what each column and word means')
    .option('--json', json)

/** `<folder>`, or in brackets one that may be left out. */
const argumentTerm = (argument: Argument) => {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`
  return argument.required ? `<${name}>` : `[${name}]`
}

/** Commands that can be copied, each under what it is for. */
const examples = (...lines: [command: string, says: string][]) => {
  const told = lines.map(([command, says]) => `  # ${says}\n  message-board ${command}\n`)
  return ({ error }: { error: boolean }) =>
    error ? '' : `\n${styled('strong', 'Examples:')}\n${told.join('')}`
}

export function program(): Command {
  const root = new Command('message-board')
    .description("Train copies of a language model to read each other's notes, and know whether it helped.")
    .version(version, '-V, --version', 'print the version')
    .showHelpAfterError('Run with --help for the options.')
    .configureOutput({
      writeOut: printOwn,
      writeErr: tell,
      getOutHasColors: () => hasColour(process.stdout),
      getErrHasColors: () => false,
    })
    .configureHelp({
      styleTitle: (title) => styled('strong', title),
      // What a command takes is in its own help.
      subcommandTerm: (command) =>
        [command.name(), ...command.registeredArguments.map(argumentTerm)].join(' '),
    })
    .exitOverride()
    .addHelpText(
      'after',
      examples(
        ['run', 'the whole built-in experiment, in minutes'],
        ['init', 'an experiment file to change; then: run experiment.ts'],
        ['run runs/experiment --seeds 17,18,19', 'go on with a run, with a seed more'],
        ['compare runs/one runs/two', 'did what differs between two runs help?'],
      ),
    )

  root.commandsGroup('Experiments:')
  root
    .command('init')
    .description('write an experiment file to begin with, each setting explained')
    .argument('[file]', 'where to write it', 'experiment.ts')
    .action(async (file: string) => {
      const { initCommand } = await import('./init.ts')
      await initCommand(file)
    })

  shown(
    training(
      about(
        root
          .command('run')
          .description('run an experiment, or continue one')
          .argument(
            '[experiment]',
            'an experiment file, or the folder of a run to go on with (default: the built-in experiment)',
          ),
      ),
    )
      .option('--arm <name>', 'train this arm; given again, another one (default: all)', listed)
      .option('--until-resolved', 'add seeds to all arms until no verdict is unresolved')
      .option('--max-seeds <n>', 'seeds an arm at which --until-resolved ends all the same', wholeNumber(2))
      .optionsGroup('The run:')
      .option(
        '--out <folder>',
        'run folder; the same command continues it (default: runs/NAME of the file, or the folder named)',
      )
      .option('--fresh', 'remove an earlier run in that folder first')
      .option(
        '--jobs <n>',
        'jobs at a time (default: as many as there are servers, or for the built-in policy cores; else 1)',
        wholeNumber(),
      )
      .option(
        '--shard <k/n>',
        'run the k-th of n parts of the jobs; message-board merge joins them',
        shardNumber,
      )
      .option('--ui', 'serve the dashboard of this run while it goes on and after, until Ctrl-C')
      .addOption(
        new Option('--log <format>', 'write the training metrics for another tool too').choices([
          'tensorboard',
        ]),
      ),
  )
    .addHelpText(
      'after',
      examples(
        ['run', 'the built-in experiment, into runs/default'],
        ['run experiment.ts --steps 4 --holdout 20', 'a first look at a file of your own'],
        [
          'run experiment.ts --set train.learningRate=5e-4 --out runs/slow',
          'the same with one setting changed',
        ],
        ['run runs/experiment', 'go on where it stopped'],
        ['run runs/experiment --seeds 17,18,19', 'add a seed: only its own jobs are run'],
        ['run runs/experiment --set train.steps=80 --out runs/long', 'one like it, with a setting changed'],
      ),
    )
    .action(async (what: string | undefined, flags: RunFlags) => {
      const { run } = await import('./run.ts')
      process.exitCode = (await run(what, flags)) ? 0 : exit.defect
    })

  shown(
    about(
      root
        .command('eval')
        .description('play a protocol without training, and count what readers did')
        .argument('[experiment]', 'an experiment file (default: the built-in experiment)'),
    )
      .optionsGroup('What is played:')
      .addOption(
        offered(
          '--reads <sight>',
          'who reads whom; both: own and shared; given again, another one (default: own)',
          [...Object.keys(sights), 'both'],
        ).argParser(listed),
      )
      .option('--arm <name>', "play an arm's protocol instead; given again, another one", listed)
      .option('--seat <n=model@url>', 'seat n (from 1) is written by that model at that endpoint', listed)
      .option('--adapter <folder>', 'a trained adapter, such as runs/x/recipe-s17/checkpoint-40')
      .option('--seed <n>', 'seed of the draws', wholeNumber(0), 1)
      .optionsGroup('A server:')
      .option('--endpoint <url>', 'an OpenAI-compatible server of --model, such as http://localhost:8000/v1')
      .option('--key-env <name>', "the environment variable that holds the server's key")
      .option('--concurrency <n>', 'requests at a time', wholeNumber(), 8)
      .option('--budget <tokens>', 'tokens of prompts and answers to pay for at most', wholeNumber())
      .optionsGroup('The run:')
      .option('--out <folder>', 'where answers are kept: the same command asks only for those that it lacks'),
  )
    .addHelpText(
      'after',
      examples(
        ['eval --reads both', 'the built-in policy with its own note, and with the board'],
        ['eval --model Qwen/Qwen2.5-0.5B-Instruct --holdout 40', 'a model from the hub'],
        ['eval --adapter runs/default/recipe-s17/checkpoint-40', 'what a training made'],
        ['eval --endpoint http://localhost:8000/v1 --model qwen', 'a model behind a server'],
      ),
    )
    .action(async (file: string | undefined, flags: EvalFlags) => {
      const { evaluateCommand } = await import('./eval.ts')
      await evaluateCommand(file, flags)
    })

  shown(
    training(
      about(
        root
          .command('power')
          .description('say what an experiment, or more seeds of a finished run, could see and would cost')
          .argument(
            '[what]',
            'an experiment file, or the folder of a run (default: the built-in experiment)',
          ),
      ),
    )
      .optionsGroup('The question:')
      .option(
        '--effect <d>',
        'difference of pass@1 to look for (default: 0.05; after a run, the observed one)',
        effectSize,
      )
      .option('--from <folder>', 'take variances and times from an earlier run instead of timing the engine')
      .option('--max-problems <n>', 'held-out problems there are at most', wholeNumber()),
    'print the figures as JSON and nothing else',
  )
    .addHelpText(
      'after',
      examples(
        ['power experiment.ts --effect 0.05', 'the sizes that find five points, and what they cost'],
        ['power runs/experiment', 'how many more seeds would resolve a finished run'],
      ),
    )
    .action(async (what: string | undefined, flags: PowerFlags) => {
      const { powerCommand } = await import('./power.ts')
      await powerCommand(what, flags)
    })

  root.commandsGroup('What was found:')
  shown(
    root
      .command('compare')
      .description('say what one arm differs by from another, of any runs that can be compared')
      .argument(
        '<first>',
        "a run folder, or FOLDER:ARM; a folder alone stands for its arms of the other's names",
      )
      .argument('<second>', 'what it is compared with'),
    'print the comparison as JSON and nothing else',
  )
    .addHelpText(
      'after',
      examples(
        ['compare runs/slow runs/default', 'each arm that both have, the first run less the second'],
        ['compare runs/slow:recipe runs/default:baseline', 'any two arms'],
      ),
    )
    .action(async (first: string, second: string, flags: OutputFlags) => {
      const { compareCommand } = await import('./compare.ts')
      await compareCommand(first, second, flags)
    })

  root
    .command('report')
    .description('write report.html of a run, finished or not')
    .argument('<folder>', 'run folder')
    .option('--out <file>', "where to write it (default: report.html in the run's folder)")
    .action(async (folder: string, flags: { out?: string }) => {
      const { reportCommand } = await import('./report.ts')
      await reportCommand(folder, flags)
    })

  root
    .command('serve')
    .description('show runs in the browser, live, until Ctrl-C')
    .argument('[folder]', 'a run folder, or a folder of runs', 'runs')
    .option(
      '--host <address>',
      'serve to other machines too, such as 0.0.0.0; asks for a token (default: this one alone)',
    )
    .option('--port <n>', 'port to listen on (default: 8642, or any free one)', wholeNumber())
    .action(async (folder: string, flags: ServeFlags) => {
      const { serveCommand } = await import('./serve.ts')
      await serveCommand(folder, flags)
    })

  about(
    root
      .command('influence')
      .description('say how much each note moved each reply, in the evaluations of a finished run')
      .argument('<folder>', 'run folder')
      .argument('[experiment]', 'the experiment file that made it (default: as the folder says)'),
  )
    .optionsGroup('What is measured:')
    .option('--job <name>', 'this job, such as recipe-s17; given again, another one (default: all)', listed)
    .optionsGroup('Output:')
    .option('--json', 'print the results as JSON and nothing else')
    .addHelpText(
      'after',
      examples(['influence runs/experiment --job recipe-s17', 'what each note did to its readers']),
    )
    .action(async (folder: string, file: string | undefined, flags: InfluenceFlags) => {
      const { influenceCommand } = await import('./influence.ts')
      await influenceCommand(folder, file, flags)
    })

  shown(
    root
      .command('regrade')
      .description('grade the stored rollouts of a run again, after the verifier has changed')
      .argument('<folder>', 'run folder')
      .argument('[experiment]', 'the experiment file, where it brings a verifier of its own'),
    'print what changed and the results as JSON and nothing else',
  ).action(async (folder: string, file: string | undefined, flags: OutputFlags) => {
    const { regradeCommand } = await import('./regrade.ts')
    await regradeCommand(folder, file, flags)
  })

  shown(
    root
      .command('merge')
      .description('make one run of the folders of its shards')
      .argument('<folders...>', 'run folders, each run with --shard')
      .requiredOption('--out <folder>', 'where the whole run goes; new or empty'),
  )
    .addHelpText('after', examples(['merge shard-* --out study', 'one run, as if it had run in one place']))
    .action(async (folders: string[], flags: OutputFlags & { out: string }) => {
      const { mergeCommand } = await import('./merge.ts')
      await mergeCommand(folders, flags)
    })

  root
    .command('playground')
    .description('play with a board and train it in the browser alone, until Ctrl-C')
    .option('--port <n>', 'port to listen on', wholeNumber())
    .action(async (flags: PlaygroundFlags) => {
      const { playgroundCommand } = await import('./playground.ts')
      await playgroundCommand(flags)
    })

  root.commandsGroup('To others:')
  shareCommands(root)

  root.commandsGroup('This installation:').helpCommand('help [command]', 'show the help of a command')
  root
    .command('selftest')
    .description('check this installation: boards, answers, counters, gradients (offline, seconds)')
    .addOption(
      new Option('--device <device>', 'check the engine there, against the CPU')
        .choices(devices)
        .default(undefined, 'cpu, or wasm where the native runtime does not load'),
    )
    .option('--json', 'print the checks as JSON')
    .action(async (flags: SelftestFlags) => {
      const { selftestCommand } = await import('./selftest.ts')
      process.exitCode = (await selftestCommand(flags)) ? 0 : exit.defect
    })

  root
    .command('doctor')
    .description('say what this machine can run on')
    .option('--json', 'print the facts as JSON')
    .action(async (flags: { json?: boolean }) => {
      const { doctorCommand } = await import('./doctor.ts')
      process.exitCode = (await doctorCommand(flags)) ? 0 : exit.defect
    })

  root
    .command('completion')
    .description('print what completes commands and options in a shell')
    .addArgument(new Argument('<shell>', 'whose').choices(shells))
    .addHelpText(
      'after',
      examples(
        ['completion bash', 'in ~/.bashrc: source <(message-board completion bash)'],
        ['completion zsh', 'in ~/.zshrc, after compinit: source <(message-board completion zsh)'],
        ['completion fish', 'in ~/.config/fish/config.fish: message-board completion fish | source'],
      ),
    )
    .action((shell: Shell) => printOwn(completions[shell](root)))
  return root
}
