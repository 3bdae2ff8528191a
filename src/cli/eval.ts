/** `message-board eval`: plays the rounds without training and prints what readers did. */
import { join } from 'node:path'
import { shownAddress } from '../address.ts'
import { boards } from '../board/reads.ts'
import { UserError } from '../errors.ts'
import { type EndpointChoice, type Evaluation, evaluateModel } from '../experiment/evaluate.ts'
import { three } from '../report/rows.ts'
import { experimentOf } from './experiment-file.ts'
import { withFlags } from './flags.ts'
import type { EvalFlags } from './main.ts'
import { downloadProgress, evaluationProgress } from './progress.ts'
import { stopOnSignals } from './signals.ts'
import { print, printJson, say } from './terminal.ts'

export async function evaluateCommand(file: string | undefined, flags: EvalFlags): Promise<void> {
  const names = flags.reads === 'both' ? ['own', 'shared'] : [flags.reads]
  const reads = names.map((name) => {
    if (Object.hasOwn(boards, name)) return boards[name]
    throw new UserError(`There is no board "${name}": give ${Object.keys(boards).join(', ')} or both.`)
  })
  // Nothing is trained: a file with too few problems to train on can be evaluated on.
  const experiment = withFlags(await experimentOf(file), { ...flags, train: 0 })
  const endpoint = endpointOf(flags)
  const keeps = flags.out !== undefined || endpoint !== undefined
  const { signal, ignore } = stopOnSignals(
    keeps
      ? 'Stopped. The same command goes on from here: every answer is kept.'
      : 'Stopped. Nothing was kept: with --out FOLDER the same command goes on.',
  )
  const { onProgress, end } = evaluationProgress(process.stderr)
  let found: Evaluation
  try {
    found = await evaluateModel(experiment, {
      reads,
      adapter: flags.adapter,
      endpoint,
      texts: flags.out === undefined ? undefined : join(flags.out, 'texts.jsonl'),
      seed: flags.seed,
      onDownload: flags.json ? undefined : downloadProgress(process.stderr),
      onNotice: say,
      onProgress: flags.json ? undefined : onProgress,
      signal,
    })
  } finally {
    ignore()
    if (!flags.json) end()
  }
  if (flags.json) {
    printJson(found)
    return
  }
  print(evaluationText(found))
}

/** The endpoint that the flags name, with the key from the environment. */
function endpointOf(flags: EvalFlags): EndpointChoice | undefined {
  const { endpoint: url, model, adapter } = flags
  if (url === undefined) return undefined
  if (model === undefined) {
    throw new UserError(
      `--endpoint ${shownAddress(url)} needs --model: give the model's name at that server.`,
    )
  }
  if (adapter !== undefined) {
    throw new UserError('--adapter needs a model that is computed here: leave --adapter or --endpoint out.')
  }
  const slug = `${shownAddress(url).replace(/^https?:\/\//, '')}-${model}`.replace(/[^\w.-]+/g, '-')
  return {
    url,
    key: keyOf(url, flags.keyEnv),
    concurrency: flags.concurrency,
    budget: flags.budget,
    answers: join(flags.out ?? join('runs', `eval-${slug}`), 'answers.jsonl'),
  }
}

/** A key goes where it is meant to go: to OpenAI its own, and elsewhere only the one that is named. */
function keyOf(url: string, variable: string | undefined): string | undefined {
  const isOpenAi = URL.canParse(url) && new URL(url).host === 'api.openai.com'
  const name = variable ?? (isOpenAi ? 'OPENAI_API_KEY' : undefined)
  if (name === undefined) return undefined
  const key = process.env[name]
  if (!key)
    throw new UserError(`The variable ${name} is not set: put the key of ${shownAddress(url)} into it.`)
  return key
}

function evaluationText(found: Evaluation): string {
  const { boards, difference, endpoint } = found
  const column = (value: (board: Evaluation['boards'][number]) => string) =>
    boards
      .map((board) => value(board).padEnd(24))
      .join('')
      .trimEnd()
  const interval = ([low, high]: readonly number[]) => `[${three(low)}, ${three(high)}]`
  const lines: [string, string][] = [
    ['model', found.adapter ? `${found.model.name} with ${found.adapter}` : found.model.name],
    ['task', `${found.task.name}, ${found.problems} problems, seed ${found.seed}`],
    ['board', column(({ reads }) => reads)],
    ['pass@1', column(({ passAt1, ci95 }) => `${three(passAt1)} ${interval(ci95)}`)],
    [`pass@${boards[0].k}`, column(({ passAtK }) => three(passAtK))],
    ['note_acc', column(({ counts }) => three(counts.noteAcc))],
    ['vote_acc', column(({ counts }) => three(counts.voteAcc))],
    ['any_note', column(({ counts }) => three(counts.anyNote))],
    ['switched', column(({ counts }) => three(counts.switched))],
    ['rescued', column(({ counts }) => three(counts.rescued))],
    ['misled', column(({ counts }) => three(counts.misled))],
    ['notes cut', column(({ counts }) => three(counts.notesCut))],
    ['replies cut', column(({ counts }) => three(counts.repliesCut))],
    ['note chars', column(({ counts }) => counts.noteChars.toFixed(0))],
    ['reply chars', column(({ counts }) => counts.replyChars.toFixed(0))],
  ]
  if (difference) {
    const { of, passAt1, ci95 } = difference
    const signed = (value: number) => `${value < 0 ? '-' : '+'}${three(Math.abs(value))}`
    const [low, high] = ci95.map(signed)
    lines.push([`${of[0]} - ${of[1]}`, `${signed(passAt1)} [${low}, ${high}], paired by problem`])
  }
  if (endpoint) {
    const { tokens, requests, kept, flawed } = endpoint
    const count = flawed.limit + flawed.filter + flawed.nothing
    lines.push(['paid', `${tokens} tokens in ${requests} answers; ${kept} were in ${endpoint.answers}`])
    if (count > 0) {
      lines.push([
        'no answer',
        `${count} texts (${flawed.limit} thought until the limit, ${flawed.filter} filtered, ${flawed.nothing} empty) ` +
          'count as they are and are not kept: the same command asks for them again',
      ])
    }
  }
  return lines.map(([name, value]) => `${name.padEnd(14)}${value}\n`).join('')
}
