/**
 * The self-test: does this installation, on this machine, read answers, lay boards, count and differentiate as it
 * should? Offline, in seconds, through the same calls that an experiment makes. Writes a temporary folder only.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { countEpisodes, vote } from '../board/counts.ts'
import { type Played, play } from '../board/play.ts'
import { policyWriter, type Rollout } from '../board/policy-writer.ts'
import { type ProtocolChoices, protocolRecord, resolveProtocol, sharedPolicy } from '../board/protocol.ts'
import { board } from '../board/protocols.ts'
import { own, shared } from '../board/sights.ts'
import type { Episode, Post } from '../board/types.ts'
import {
  gradientDifference,
  gradientError,
  loadError,
  logprobError,
  scoreDifference,
  tolerances,
} from '../engine/checks.ts'
import type { Engine } from '../engine/contract.ts'
import { chooseDevice } from '../engine/onnx/device.ts'
import type { Device } from '../engine/onnx/devices.ts'
import { openOnnxEngine } from '../engine/onnx/index.ts'
import { defaultDevice, nativeProblem } from '../engine/onnx/runtime.ts'
import { mathGrader } from '../grade/grader.ts'
import { clues } from '../tasks/clues.ts'
import { insight } from '../tasks/insight.ts'
import type { Problem } from '../tasks/types.ts'
import { wordProblems } from '../tasks/word-problems.ts'
import { writeTinyModel } from './tiny-model.ts'

export interface Check {
  name: string
  passed: boolean
  /** What was found, in a few words. */
  detail: string
}

/** Runs every check, the engine's on the given device; one that throws has failed. */
export async function selftest(device: Device | 'auto' = defaultDevice()): Promise<Check[]> {
  const folder = await mkdtemp(join(tmpdir(), 'message-board-selftest-'))
  const engines: Engine[] = []
  try {
    // Of sizes that our own kernels on CUDA fit, so that these are checked too.
    await writeTinyModel(folder, 1, { headDim: 32, intermediateSize: 64 })
    const place = await chooseDevice(device)
    const open = async (on: Device) => {
      const engine = await openOnnxEngine({ model: folder, device: on })
      engines.push(engine)
      return engine
    }
    const tiny = await open(place.device)
    const scratch = (name: string) => join(folder, name)
    const within = tolerances[place.precision]
    const checks = [
      await check('boards', () => boards()),
      await check('answers', () => answers()),
      await check('counters', () => counters()),
      await check('rounds', () => rounds(tiny)),
      await check('worlds', () => worlds(tiny)),
      await check('log-probabilities', () =>
        atMost(within.logprob, logprobError(tiny), 'sampling against training'),
      ),
      await check('gradients', () =>
        atMost(within.slope, gradientError(tiny, scratch('moved')), 'against finite differences'),
      ),
      await check('adapters', () => atMost(0, loadError(tiny, scratch('adapter')), 'saved against loaded')),
    ]
    // Against the native runtime on the processor, where that is another one and is there.
    if (place.device === 'cpu' || nativeProblem() !== null) return checks
    const cpu = await open('cpu')
    return [
      ...checks,
      await check(`scores on ${place.device}`, () =>
        atMost(
          within.logprob,
          scoreDifference(cpu, tiny, scratch('scores')),
          'log-probabilities against the CPU',
        ),
      ),
      await check(`gradients on ${place.device}`, () =>
        atMost(
          within.gradient,
          gradientDifference(cpu, tiny, scratch('gradients')),
          'LoRA gradients against the CPU, relative',
        ),
      ),
    ]
  } finally {
    for (const engine of engines) await engine.close()
    await rm(folder, { recursive: true, force: true })
  }
}

type Finding = { passed: boolean; detail: string }

async function check(name: string, run: () => Finding | Promise<Finding>): Promise<Check> {
  try {
    return { name, ...(await run()) }
  } catch (error) {
    return { name, passed: false, detail: error instanceof Error ? error.message : String(error) }
  }
}

async function atMost(limit: number, error: Promise<number>, what: string): Promise<Finding> {
  const found = await error
  return { passed: found <= limit, detail: `${what}: ${found.toExponential(1)}, at most ${limit}` }
}

function boards(): Finding {
  const seen = (protocol: ProtocolChoices) =>
    protocolRecord(resolveProtocol(protocol, { copies: 2, noteTokens: 8, replyTokens: 8 })).rounds[1].sights
  const laid = JSON.stringify([seen(board({ reads: own })), seen(board({ reads: shared }))])
  const right = '[[[[0,0]],[[0,1]]],[[[0,0],[0,1]],[[0,0],[0,1]]]]'
  return { passed: laid === right, detail: 'own and shared, who reads whom' }
}

/** Replies and what the verifier must say of them, gold 42. */
const replies: readonly [reply: string, correct: boolean][] = [
  ['6 x 7 = 42, so \\boxed{42}', true],
  ['\\boxed{41}, no: \\boxed{42.0}', true],
  ['\\boxed{42}, no: \\boxed{41}', false],
  ['It costs $42 but', false],
  ['#### 42', true],
  ['\\boxed{1,042}', false],
  ['', false],
]

function answers(): Finding {
  const wrong = replies.filter(([reply, correct]) => mathGrader.grade(reply, '42').correct !== correct)
  return {
    passed: wrong.length === 0,
    detail: `${replies.length - wrong.length} of ${replies.length} read right${wrong.map(([reply]) => `; not "${reply}"`)}`,
  }
}

function counters(): Finding {
  const post = (answer: string | null, seat: number): Post => {
    const text = answer === null ? 'cut' : `\\boxed{${answer}}`
    return { seat, reads: [], text, tokens: 1, cut: answer === null, ...mathGrader.grade(text, '1') }
  }
  const episode: Episode = {
    problemId: 'x',
    rounds: [['2', '1', null, '2'].map(post), ['1', '2', '1', '2'].map(post)],
  }
  const { noteAcc, voteAcc, anyNote, switched, rescued, misled } = countEpisodes([episode])
  const found = [noteAcc, voteAcc, anyNote, switched, rescued, misled]
  const tie = vote(['3', '1'].map(post))?.answer
  return {
    passed: JSON.stringify(found) === '[0.25,0,1,0.75,0.5,0.25]' && tie === '3',
    detail: 'a board worked by hand, and a tie',
  }
}

/** One board played by a model of the tiny one's kind. */
async function playBoard(engine: Engine, problem: Problem): Promise<Played<Rollout>[]> {
  const policy = await engine.createPolicy()
  try {
    const { tokenizer, contextLength } = engine
    const protocol = resolveProtocol(board(), { copies: 4, noteTokens: 8, replyTokens: 8 })
    const limits = { maxTokens: 8, temperature: 1, topP: 1 }
    const writer = policyWriter(new Map([[sharedPolicy, { policy, tokenizer, contextLength }]]), {
      readTokens: null,
    })
    const playing = { protocol, sampling: [limits, limits], grader: mathGrader, seed: [1] }
    return (await play(writer, [{ problem }], playing)).played
  } finally {
    policy.dispose()
  }
}

const isWhole = ([{ episode }]: readonly Played<Rollout>[]): boolean =>
  episode.rounds.length === 2 && episode.rounds.every((posts) => posts.length === 4)

async function rounds(engine: Engine): Promise<Finding> {
  const problem = { id: 'x', question: 'What is 1?', gold: '1' }
  const [first, second] = [await playBoard(engine, problem), await playBoard(engine, problem)]
  return {
    passed: isWhole(first) && JSON.stringify(first) === JSON.stringify(second),
    detail: 'four notes, four replies, twice the same from one seed',
  }
}

/** One problem of each generated world, played, and its own answer known for right. */
async function worlds(engine: Engine): Promise<Finding> {
  const tasks = [wordProblems, clues, insight].map((world) => world({ train: 0, holdout: 1 }))
  const wrong: string[] = []
  for (const { name, load } of tasks) {
    const { holdout } = await load()
    const [problem] = holdout
    const { correct } = mathGrader.grade(`\\boxed{${problem.gold}}`, problem.gold)
    if (!correct || !isWhole(await playBoard(engine, problem))) wrong.push(name)
  }
  return {
    passed: wrong.length === 0,
    detail: `a problem of ${tasks.map(({ name }) => name).join(', ')}${wrong.map((name) => `; not of ${name}`).join('')}`,
  }
}
