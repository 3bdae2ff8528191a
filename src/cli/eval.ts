/** `message-board eval`: plays protocols without training and prints what readers did. */
import { join } from 'node:path'
import { shownAddress } from '../address.ts'
import { protocolRecord } from '../board/protocol.ts'
import { board } from '../board/protocols.ts'
import { sights } from '../board/sights.ts'
import { UserError } from '../errors.ts'
import { type Arm, resolveArm } from '../experiment/arms.ts'
import { type Experiment, noSuchArm } from '../experiment/config.ts'
import { type EndpointChoice, type Evaluation, evaluateModel } from '../experiment/evaluate.ts'
import type { CheckLine } from '../report/checks.ts'
import { alignedRows, type Line, line, wrapped } from '../report/layout.ts'
import { difference, level, three } from '../report/numbers.ts'
import { bracketed, MARKED, threeOrDash } from '../report/rows.ts'
import { seesItselfAlone } from '../report/second-try.ts'
import { checkRows, explainedLines } from '../report/table.ts'
import { experimentOf } from './experiment-file.ts'
import { type ExperimentFlags, type OutputFlags, withFlags } from './flags.ts'
import { downloadProgress, evaluationProgress } from './progress.ts'
import { stopOnSignals } from './signals.ts'
import { lineWidth, printJson, printLines, say } from './terminal.ts'

export interface EvalFlags extends ExperimentFlags, OutputFlags {
  adapter?: string
  endpoint?: string
  keyEnv?: string
  concurrency: number
  budget?: number
  out?: string
  reads?: string[]
  arm?: string[]
  seat?: string[]
  seed: number
}

type Played = Pick<Arm, 'protocol' | 'policies' | 'train'>

export async function evaluateCommand(file: string | undefined, flags: EvalFlags): Promise<void> {
  // Nothing is trained: a file with too few problems to train on can be evaluated on.
  const experiment = withFlags(await experimentOf(file), { ...flags, train: 0 })
  const seats = seatsOf(flags)
  const arms = playedArms(experiment, flags, seats)
  const endpoints = endpointsOf(flags, arms, seats)
  const keeps = flags.out !== undefined || endpoints !== undefined
  const { signal, ignore } = stopOnSignals(
    keeps
      ? 'Stopped. The same command goes on from here: every answer is kept.'
      : 'Stopped. Nothing was kept: with --out FOLDER the same command goes on.',
  )
  const { onProgress, end } = evaluationProgress(process.stderr)
  let found: Evaluation
  try {
    found = await evaluateModel(experiment, {
      arms,
      endpoints,
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
  if (flags.json) printJson(found)
  else printLines(evaluationLines(found, arms, { width: lineWidth(), explain: flags.explain }))
}

/** A seat that another model writes for. */
interface SeatModel {
  /** From 0. */
  seat: number
  model: string
  /** Null: the endpoint of --endpoint. */
  url: string | null
}

function seatsOf({ seat = [] }: EvalFlags): SeatModel[] {
  return seat.map((text) => {
    const [, number, model, url] = /^(\d+)=([^@]+)(?:@(https?:\/\/.+))?$/.exec(text) ?? []
    if (number === undefined || Number(number) < 1) {
      throw new UserError(`--seat ${text} names no seat: give it as 2=model or 2=model@http://host:8000/v1.`)
    }
    return { seat: Number(number) - 1, model, url: url ?? null }
  })
}

const seatPolicy = ({ seat }: SeatModel): string => `seat${seat + 1}`

/** What the flags ask to play: arms of the experiment, or boards by who reads whom. */
function playedArms(experiment: Experiment, flags: EvalFlags, seats: readonly SeatModel[]): Played[] {
  if (flags.arm && flags.reads) throw new UserError('--arm and --reads both say what to play: leave one out.')
  const { board: sizes, model } = experiment
  const base = Object.values(experiment.arms)[0]
  const plain = (name: string): Played => {
    if (!Object.hasOwn(sights, name)) {
      throw new UserError(`There is no board "${name}": give ${Object.keys(sights).join(', ')} or both.`)
    }
    return resolveArm(
      name,
      { protocol: board({ reads: sights[name] }) },
      {
        sizes,
        train: { ...base.train, boards: Math.max(2, base.train.boards) },
        sampling: base.sampling,
        model,
      },
    )
  }
  const names = flags.reads?.flatMap((name) => (name === 'both' ? ['own', 'shared'] : [name])) ?? ['own']
  const arms = flags.arm?.map((name): Played => {
    if (Object.hasOwn(experiment.arms, name)) return experiment.arms[name]
    throw noSuchArm(experiment, name)
  })
  return (arms ?? names.map(plain)).map((arm) => {
    const at = (index: number) => seats.find(({ seat }) => seat === index)
    const missing = seats.find(({ seat }) => seat >= arm.protocol.seats.length)
    if (missing) {
      throw new UserError(
        `--seat ${missing.seat + 1}: the protocol ${arm.protocol.name} has ${arm.protocol.seats.length} seats.`,
      )
    }
    const policies = Object.fromEntries(
      Object.entries(arm.policies).map(([name, policy]) => [
        name,
        { ...policy, adapter: flags.adapter ?? policy.adapter },
      ]),
    )
    const placed = arm.protocol.seats.map((seat, index) => {
      const other = at(index)
      if (!other) return seat
      policies[seatPolicy(other)] = { model: other.model, adapter: null, trained: false }
      return { ...seat, policy: seatPolicy(other) }
    })
    const named = new Set(placed.map(({ policy }) => policy))
    return {
      ...arm,
      protocol: { ...arm.protocol, seats: placed },
      policies: Object.fromEntries(Object.entries(policies).filter(([name]) => named.has(name))),
    }
  })
}

/** Where each policy is served, with the key from the environment; undefined: computed here. */
function endpointsOf(
  flags: EvalFlags,
  arms: readonly Played[],
  seats: readonly SeatModel[],
): Record<string, EndpointChoice> | undefined {
  const { endpoint, model: shared, adapter } = flags
  if (endpoint === undefined) {
    const elsewhere = seats.find(({ url }) => url !== null)
    if (elsewhere) {
      throw new UserError(
        `--seat ${elsewhere.seat + 1} is at an endpoint: give --endpoint for the other seats too.`,
      )
    }
    return undefined
  }
  if (shared === undefined) {
    throw new UserError(
      `--endpoint ${shownAddress(endpoint)} needs --model: give the model's name at that server.`,
    )
  }
  if (adapter !== undefined) {
    throw new UserError('--adapter needs a model that is computed here: leave --adapter or --endpoint out.')
  }
  const at = (url: string, model: string): EndpointChoice => {
    const slug = `${shownAddress(url).replace(/^https?:\/\//, '')}-${model}`.replace(/[^\w.-]+/g, '-')
    const folder = flags.out ?? join('runs', `eval-${slug}`)
    return {
      url,
      model,
      key: keyOf(url, flags.keyEnv),
      concurrency: flags.concurrency,
      budget: flags.budget,
      answers: join(folder, url === endpoint && model === shared ? 'answers.jsonl' : `answers-${slug}.jsonl`),
    }
  }
  const policies = new Set(arms.flatMap((arm) => Object.keys(arm.policies)))
  return Object.fromEntries(
    [...policies].map((policy) => {
      const seat = seats.find((one) => seatPolicy(one) === policy)
      return [policy, at(seat?.url ?? endpoint, seat?.model ?? shared)]
    }),
  )
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

/** For a terminal: what was played, a column for each protocol, and how they differ. */
function evaluationLines(
  found: Evaluation,
  arms: readonly Played[],
  { width, explain = false }: { width: number; explain?: boolean },
): Line[] {
  const { differences, endpoints, models } = found
  const { head, rows } = figures(found, arms)
  const hasMarks = rows.some((row) => row.some((cell) => cell.startsWith('(')))
  const before = models.map(
    ({ policy, model, adapter }): CheckLine => [
      models.length === 1 ? 'model' : policy,
      adapter ? `${model} with ${adapter}` : model,
      '',
    ],
  )
  const after = [
    ...differences.map(
      ({ of, passAt1, ci95 }): CheckLine => [
        `${of[0]} - ${of[1]}`,
        `${difference({ delta: passAt1, ci95 })}, paired by problem`,
        '',
      ],
    ),
    ...endpoints.flatMap(paid),
  ]
  return [
    ...checkRows(
      [...before, ['task', `${found.task.name}, ${found.problems} problems, seed ${found.seed}`, '']],
      width,
    ),
    ...blocks([head, ...rows], width).flatMap((block) => [
      [],
      ...alignedRows(block).map((row, i) => line(row, i === 0 ? 'faint' : undefined)),
    ]),
    ...(hasMarks ? [[], ...wrapped([{ text: MARKED, tone: 'faint' }], width)] : []),
    ...(after.length === 0 ? [] : [[], ...checkRows(after, width)]),
    ...(explain
      ? explainedLines(
          rows.map(([name]) => name),
          width,
        )
      : []),
  ]
}

/** A row for each figure, a column for each protocol. */
function figures({ protocols }: Evaluation, arms: readonly Played[]): { head: string[]; rows: string[][] } {
  const row = (name: string, value: (played: Evaluation['protocols'][number], i: number) => string) => [
    name,
    ...protocols.map(value),
  ]
  const alone = arms.map(({ protocol }) => seesItselfAlone(protocolRecord(protocol).rounds.at(-1)!))
  const chars = (value: number | null) => (value === null ? '–' : value.toFixed(0))
  const most = Math.max(...protocols.map(({ counts }) => counts.rounds.length))
  const rounds = Array.from({ length: most > 2 ? most : 0 }, (_, r) =>
    row(`round ${r + 1} right`, ({ counts }) => threeOrDash(counts.rounds[r]?.right ?? null)),
  )
  return {
    head: row('board', ({ protocol }) => protocol),
    rows: [
      row('pass@1', ({ passAt1, ci95 }) => level(passAt1, ci95)),
      row(`pass@${protocols[0].k}`, ({ passAtK }) => three(passAtK)),
      row('note_acc', ({ counts }) => threeOrDash(counts.noteAcc)),
      row('vote_acc', ({ counts }) => threeOrDash(counts.voteAcc)),
      row('any_note', ({ counts }) => threeOrDash(counts.anyNote)),
      row('switched', ({ counts }) => threeOrDash(counts.switched)),
      row('rescued', ({ counts }, i) => bracketed(counts.rescued, alone[i])),
      row('misled', ({ counts }, i) => bracketed(counts.misled, alone[i])),
      row('notes cut', ({ counts }) => threeOrDash(counts.notesCut)),
      row('replies cut', ({ counts }) => threeOrDash(counts.repliesCut)),
      row('note chars', ({ counts }) => chars(counts.noteChars)),
      row('reply chars', ({ counts }) => chars(counts.replyChars)),
      ...rounds,
    ],
  }
}

/** A table as several of the same first column, each of as many others as fit. */
function blocks(rows: readonly (readonly string[])[], width: number): string[][][] {
  const wide = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)))
  const parts: number[][] = []
  let room = 0
  for (const column of wide.keys()) {
    if (column === 0) continue
    const needs = wide[column] + 2
    if (room < needs) {
      parts.push([])
      room = width - wide[0]
    }
    parts[parts.length - 1].push(column)
    room -= needs
  }
  return parts.map((columns) => rows.map((row) => [row[0], ...columns.map((column) => row[column])]))
}

function paid({ tokens, requests, kept, answers, flawed }: Evaluation['endpoints'][number]): CheckLine[] {
  const count = flawed.limit + flawed.filter + flawed.nothing
  return [
    ['paid', `${tokens} tokens in ${requests} answers; ${kept} were in ${answers}`, ''],
    ...(count === 0
      ? []
      : [
          [
            'no answer',
            `${count} texts (${flawed.limit} thought until the limit, ${flawed.filter} filtered, ${flawed.nothing} empty) ` +
              'count as they are and are not kept: the same command asks for them again',
            '',
          ] satisfies CheckLine,
        ]),
  ]
}
