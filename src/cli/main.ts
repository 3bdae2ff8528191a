#!/usr/bin/env node
/** The command line: arguments to calls, results to text, errors to exit codes. Holds no logic of its own. */
import { Command, CommanderError, Option } from 'commander'
import type { EvalFlags } from './eval.ts'
import type { RunFlags } from './flags.ts'
import type { InfluenceFlags } from './influence.ts'
import { effectSize, listed, positiveNumber, seedList, shardNumber, wholeNumber } from './options.ts'
import type { PlaygroundFlags } from './playground.ts'
import type { PowerFlags } from './power.ts'
import type { SelftestFlags } from './selftest.ts'
import type { ServeFlags } from './serve.ts'
import { shareCommands } from './share.ts'
import { print, say, tell } from './terminal.ts'

/** 0: fine. */
const exit = { defect: 1, user: 2 } as const

/** Adds the options that `run` and `eval` share. */
function about(command: Command): Command {
  return command
    .option('--model <model>', 'checkpoint folder, or a model on the hub: owner/name or owner/name@revision')
    .option(
      '--task <task>',
      'word-problems, clues, insight, gsm8k, svamp, math, or a .jsonl or .parquet file',
    )
    .option('--holdout <n>', 'held-out problems to evaluate on', wholeNumber())
    .option(
      '--engine <name>',
      'what computes: onnx, or tinker for servers of the Tinker API (key: TINKER_API_KEY)',
    )
    .option(
      '--url <url>',
      'with --engine tinker, a server; given again, another one with the same model',
      listed,
    )
    .option(
      '--tokenizer <model>',
      "with --engine tinker, where the model's tokenizer is; --model unless told",
    )
    .option('--temperature <t>', 'temperature of every draw', positiveNumber)
    .option('--lora-alpha <alpha>', 'the adapter adds alpha / rank of itself', positiveNumber)
    .option(
      '--device <device>',
      'where it computes: cpu, wasm, cuda, webgpu, or auto for the best that works',
    )
    .option('--threads <n>', 'threads of the engine', wholeNumber())
    .option('--json', 'print the results as JSON and nothing else')
}

function program(): Command {
  const root = new Command('message-board')
    .description("Train copies of a language model to read each other's notes, and know whether it helped.")
    .showHelpAfterError('Run with --help for the options.')
    .configureOutput({ writeOut: print, writeErr: tell })
    .exitOverride()

  about(root.command('run').description('run an experiment, or continue one').argument('[experiment.ts]'))
    .option('--out <folder>', 'run folder; the same command continues it')
    .option('--fresh', 'remove an earlier run in that folder first')
    .option('--arm <name>', 'train this arm; given again, another one; all unless told', listed)
    .option(
      '--shard <k/n>',
      'run the k-th of n parts of the jobs; message-board merge joins them',
      shardNumber,
    )
    .option('--steps <n>', 'training steps', wholeNumber())
    .option('--seeds <list>', 'training seeds, such as 17,18', seedList)
    .option('--train <n>', 'training problems', wholeNumber())
    .option('--jobs <n>', 'jobs at a time; as many as there are servers unless told', wholeNumber())
    .option('--until-resolved', 'add seeds to all arms until no verdict is unresolved')
    .option('--max-seeds <n>', 'seeds an arm at which --until-resolved ends all the same', wholeNumber(2))
    .option('--ui', 'serve the dashboard of this run while it goes on')
    .addOption(
      new Option('--log <format>', 'write the training metrics for another tool too').choices([
        'tensorboard',
      ]),
    )
    .action(async (file: string | undefined, flags: RunFlags) => {
      const { run } = await import('./run.ts')
      process.exitCode = (await run(file, flags)) ? 0 : exit.defect
    })

  about(
    root
      .command('eval')
      .description('play a protocol without training, and count what readers did')
      .argument('[experiment.ts]'),
  )
    .option('--adapter <folder>', 'a trained adapter, such as runs/x/recipe-s17/checkpoint-40')
    .option('--endpoint <url>', 'an OpenAI-compatible server of --model, such as http://localhost:8000/v1')
    .option('--key-env <name>', "the environment variable that holds the server's key")
    .option('--concurrency <n>', 'requests at a time', wholeNumber(), 8)
    .option('--budget <tokens>', 'tokens of prompts and answers to pay for at most', wholeNumber())
    .option('--out <folder>', 'where answers are kept: the same command asks only for those that it lacks')
    .option(
      '--reads <sight>',
      'who reads whom: own, shared, ring, star or chain; given again, another one',
      listed,
    )
    .option('--arm <name>', "play an arm's protocol instead; given again, another one", listed)
    .option('--seat <n=model@url>', 'seat n (from 1) is written by that model at that endpoint', listed)
    .option('--seed <n>', 'seed of the draws', wholeNumber(0), 1)
    .action(async (file: string | undefined, flags: EvalFlags) => {
      const { evaluateCommand } = await import('./eval.ts')
      await evaluateCommand(file, flags)
    })

  root
    .command('merge')
    .description('make one run of the folders of its shards')
    .argument('<folders...>', 'run folders, each run with --shard')
    .requiredOption('--out <folder>', 'where the whole run goes; new or empty')
    .option('--json', 'print the results as JSON')
    .action(async (folders: string[], flags: { out: string; json?: boolean }) => {
      const { mergeCommand } = await import('./merge.ts')
      await mergeCommand(folders, flags)
    })

  root
    .command('report')
    .description('write report.html of a run, finished or not')
    .argument('<folder>', 'run folder')
    .option('--out <file>', "where to write it; in the run's folder unless told")
    .action(async (folder: string, flags: { out?: string }) => {
      const { reportCommand } = await import('./report.ts')
      await reportCommand(folder, flags)
    })

  root
    .command('serve')
    .description('show runs in the browser, live, until Ctrl-C')
    .argument('[folder]', 'a run folder, or a folder of runs', 'runs')
    .option('--host <address>', 'serve to other machines too, such as 0.0.0.0; asks for a token')
    .option('--port <n>', 'port to listen on', wholeNumber())
    .action(async (folder: string, flags: ServeFlags) => {
      const { serveCommand } = await import('./serve.ts')
      await serveCommand(folder, flags)
    })

  root
    .command('playground')
    .description('play with a board and train it in the browser alone, until Ctrl-C')
    .option('--port <n>', 'port to listen on', wholeNumber())
    .action(async (flags: PlaygroundFlags) => {
      const { playgroundCommand } = await import('./playground.ts')
      await playgroundCommand(flags)
    })

  about(
    root
      .command('power')
      .description('say what an experiment, or more seeds of a finished run, could see and would cost')
      .argument('[experiment.ts or run folder]'),
  )
    .option(
      '--effect <d>',
      'difference of pass@1 to look for: 0.05, or after a run the observed one',
      effectSize,
    )
    .option('--from <folder>', 'take variances and times from an earlier run instead of timing the engine')
    .option('--max-problems <n>', 'held-out problems there are at most', wholeNumber())
    .option('--steps <n>', 'training steps', wholeNumber())
    .option('--seeds <list>', 'training seeds, such as 17,18', seedList)
    .option('--train <n>', 'training problems', wholeNumber())
    .action(async (what: string | undefined, flags: PowerFlags) => {
      const { powerCommand } = await import('./power.ts')
      await powerCommand(what, flags)
    })

  about(
    root
      .command('influence')
      .description('say how much each note moved each reply, in the evaluations of a finished run')
      .argument('<folder>', 'run folder')
      .argument('[experiment.ts]', 'the experiment that made it'),
  )
    .option(
      '--job <name>',
      'measure this job, such as recipe-s17; given again, another one; all unless told',
      listed,
    )
    .action(async (folder: string, file: string | undefined, flags: InfluenceFlags) => {
      const { influenceCommand } = await import('./influence.ts')
      await influenceCommand(folder, file, flags)
    })

  root
    .command('regrade')
    .description('grade the stored rollouts of a run again, after the verifier has changed')
    .argument('<folder>', 'run folder')
    .argument('[experiment.ts]', 'the experiment file, where it brings a verifier of its own')
    .option('--json', 'print what changed and the results as JSON')
    .action(async (folder: string, file: string | undefined, flags: { json?: boolean }) => {
      const { regradeCommand } = await import('./regrade.ts')
      await regradeCommand(folder, file, flags)
    })

  shareCommands(root)

  root
    .command('selftest')
    .description('check this installation: boards, answers, counters, gradients (offline, seconds)')
    .addOption(
      new Option('--device <device>', 'check the engine there, against the CPU')
        .choices(['cpu', 'wasm', 'cuda', 'webgpu', 'auto'])
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
  return root
}

async function main(): Promise<void> {
  try {
    await program().parseAsync()
  } catch (error) {
    // Commander has already said what is wrong, or shown the help that was asked for.
    if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : exit.user
    // By name: an experiment file may bring a copy of the class with it.
    else if (error instanceof Error && error.name === 'UserError') {
      say(`message-board: ${error.message}`)
      process.exitCode = exit.user
    } else if (error instanceof Error && error.name === 'Interrupted' && 'exitCode' in error) {
      tell(`\n${error.message}\n`)
      process.exitCode = Number(error.exitCode)
    } else {
      say('message-board: this is a defect, please report it.')
      tell(`${error instanceof Error ? error.stack : String(error)}\n`)
      process.exitCode = exit.defect
    }
  }
}

// A reader that leaves early (message-board ... | head) is no error and stops nothing: what is said from then on is lost.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', ({ code }: NodeJS.ErrnoException) => {
    if (code === 'EPIPE' || stream === process.stderr) return
    say(`message-board: what is printed cannot be written (${code}).`)
    process.exitCode = exit.user
  })
}

await main()
