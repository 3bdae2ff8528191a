/** `message-board eval`: plays the rounds without training and prints what readers did. */
import { boards } from '../board/reads.ts'
import { UserError } from '../errors.ts'
import { evaluateModel } from '../experiment/evaluate.ts'
import { three } from '../report/rows.ts'
import { experimentOf } from './experiment-file.ts'
import { withFlags } from './flags.ts'
import type { EvalFlags } from './main.ts'
import { downloadProgress } from './progress.ts'

export async function evaluateCommand(file: string | undefined, flags: EvalFlags): Promise<void> {
  const reads = boards[flags.reads]
  if (!reads)
    throw new UserError(`There is no board "${flags.reads}": give ${Object.keys(boards).join(' or ')}.`)
  const found = await evaluateModel(withFlags(await experimentOf(file), flags), {
    reads,
    adapter: flags.adapter,
    seed: flags.seed,
    onDownload: flags.json ? undefined : downloadProgress(process.stderr),
    onNotice: (text) => {
      process.stderr.write(`${text}\n`)
    },
    onProblems: flags.json
      ? undefined
      : (done, of) => process.stderr.write(process.stderr.isTTY ? `\r${done}/${of}` : `${done}/${of}\n`),
  })
  if (flags.json) {
    process.stdout.write(`${JSON.stringify(found, null, 2)}\n`)
    return
  }
  const { board, ci95, k } = found
  const lines: [string, string][] = [
    ['model', found.adapter ? `${found.model.name} with ${found.adapter}` : found.model.name],
    ['task', `${found.task.name}, ${found.problems} problems, board ${found.reads}, seed ${found.seed}`],
    ['pass@1', `${three(found.passAt1)} [${three(ci95[0])}, ${three(ci95[1])}]`],
    [`pass@${k}`, three(found.passAtK)],
    ['note_acc', three(board.noteAcc)],
    ['vote_acc', three(board.voteAcc)],
    ['any_note', three(board.anyNote)],
    ['switched', three(board.switched)],
    ['rescued', three(board.rescued)],
    ['misled', three(board.misled)],
    ['cut off', `${three(board.notesCut)} of notes, ${three(board.repliesCut)} of replies`],
    ['chars', `${board.noteChars.toFixed(0)} a note, ${board.replyChars.toFixed(0)} a reply`],
  ]
  if (process.stderr.isTTY) process.stderr.write('\r\u001b[K')
  for (const [name, value] of lines) process.stdout.write(`${name.padEnd(10)}${value}\n`)
}
