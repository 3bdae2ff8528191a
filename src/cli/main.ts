#!/usr/bin/env node
/** The command line: arguments to calls, results to text, errors to exit codes. Holds no logic of its own. */
import { CommanderError } from 'commander'
import { exit, program } from './program.ts'
import { say, tell } from './terminal.ts'

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
