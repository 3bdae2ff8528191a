/** The board on the stage: which problem, who plays it, and its posts as far as they are written and shown. Signals. */
import { batch, computed, effect, signal, untracked } from '@preact/signals'
import type { Effect } from '../board/influence.ts'
import type { GrowingText } from '../board/play.ts'
import type { Post, Ref } from '../board/types.ts'
import { mathGrader } from '../grade/grader.ts'
import type { Problem } from '../tasks/types.ts'
import { taskOf } from './experiment.ts'
import type { PlayAsk, PlayedBoard, PolicyChoice } from './host.ts'
import { advance } from './reveal.ts'
import type { ArmName, ProblemChoice, WorldName } from './settings.ts'
import { failed, host, set, settings } from './state.ts'
import { SEATS } from './wiring.ts'

/** A post on the stage. */
export interface StagePost {
  round: number
  seat: number
  reads: readonly Ref[]
  /** All that is there of it. */
  text: string
  tokens: number
  /** Characters shown. */
  shown: number
  /** Once it is whole. */
  post: Post | null
  /** The same post before a note was edited. */
  before: Post | null
  /** Whether a person wrote it. */
  edited: boolean
}

export const arm = signal<ArmName>('recipe')
export const policy = signal<PolicyChoice>(null)
export const problem = signal<Problem | null>(null)
export const posts = signal<StagePost[][]>([])
export const effects = signal<readonly Effect[] | null>(null)
/** idle: nothing is asked for; waiting: no token yet; writing: posts grow; done: all is shown. */
export const phase = signal<'idle' | 'waiting' | 'writing' | 'done'>('idle')
/** The board before a note was edited, to go back to. */
const original = signal<PlayedBoard | null>(null)
export const isEdited = computed(() => posts.value[0]?.some(({ edited }) => edited) ?? false)

let played: PlayedBoard | null = null
let draw = 1
let stop = new AbortController()

/** Held-out problems of the worlds, made once. */
const worlds = new Map<WorldName, Promise<Problem[]>>()
const heldOut = (world: WorldName): Promise<Problem[]> => {
  const known =
    worlds.get(world) ??
    taskOf(world)
      .load()
      .then(({ holdout }) => holdout)
  worlds.set(world, known)
  return known
}

async function problemOf(choice: ProblemChoice): Promise<Problem> {
  if ('world' in choice) return (await heldOut(choice.world))[choice.index]
  const { question, gold, parts } = choice
  return { id: `own ${question}`, question, gold, ...(parts.length > 0 && { parts }) }
}

/** Puts a problem on the stage and plays it. */
export async function pose(choice: ProblemChoice): Promise<void> {
  set({ problem: choice })
  problem.value = await problemOf(choice)
  draw = 1
  await play()
}

/** The world's next problem. */
export function poseAnother(): Promise<void> {
  const { problem: choice, world } = settings.peek()
  const at = 'world' in choice ? choice : { world, index: -1 }
  return pose({ world: at.world, index: (at.index + 1) % 120 })
}

/** What decides a board beside its problem and who writes: where it is drawn anew, it is played anew. */
const laid = computed(() => {
  const { reads, rounds } = settings.value.arms[arm.value]
  return JSON.stringify([reads, rounds])
})
let lastLaid = laid.peek()
effect(() => {
  if (laid.value === lastLaid) return
  lastLaid = laid.value
  untracked(() => play().catch(failed))
})

/** Plays the problem again with other draws. */
export function playAgain(): Promise<void> {
  draw++
  return play()
}

/** Plays the problem from its first note. */
export async function play(): Promise<void> {
  const posed = problem.peek()
  if (posed === null) return
  original.value = null
  await perform({ from: 0, blank: blankPosts() })
}

/** Lets the readers read again with other texts in place of some notes; what they draw is drawn alike. */
export async function editNote(seat: number, text: string): Promise<void> {
  const posed = problem.peek()
  if (played === null || posed === null) return
  original.value ??= played
  const [notes, ...later] = posts.peek()
  const first = original.value.episode.rounds
  const changed = notes.map((one) => {
    if (one.seat !== seat) return one
    const same = text === first[0][seat].text
    const post: Post = same
      ? first[0][seat]
      : { ...one.post!, text, ...mathGrader.grade(text, posed.gold), cut: false, tokens: 0 }
    return { ...one, text, shown: text.length, post, edited: !same, before: same ? null : first[0][seat] }
  })
  const blank = [
    changed,
    ...later.map((round) =>
      round.map(
        (one): StagePost => ({
          ...one,
          text: '',
          tokens: 0,
          shown: 0,
          post: null,
          before: first[one.round][one.seat],
        }),
      ),
    ),
  ]
  await perform({ from: 1, blank, edited: { board: played.board, note: [0, seat], text } })
}

/** Takes all edits back. */
export async function undoEdits(): Promise<void> {
  const before = original.peek()
  if (before === null) return
  stop.abort()
  played = before
  original.value = null
  batch(() => {
    posts.value = blankPosts().map((round, r) =>
      round.map((one, i) => {
        const post = before.episode.rounds[r][i]
        return { ...one, text: post.text, tokens: post.tokens, shown: post.text.length, post }
      }),
    )
    phase.value = 'done'
  })
  await measure(before)
}

function blankPosts(): StagePost[][] {
  const { reads, rounds } = settings.peek().arms[arm.peek()]
  return Array.from({ length: rounds }, (_, round) =>
    Array.from({ length: SEATS }, (_, seat) => ({
      round,
      seat,
      reads: round === 0 ? [] : reads[seat].map((note): Ref => [round - 1, note]),
      text: '',
      tokens: 0,
      shown: 0,
      post: null,
      before: null,
      edited: false,
    })),
  )
}

async function perform({
  from,
  blank,
  edited,
}: {
  /** The first round that is written anew. */
  from: number
  blank: StagePost[][]
  edited?: PlayAsk['edited']
}): Promise<void> {
  stop.abort()
  stop = new AbortController()
  const { signal: stopped } = stop
  batch(() => {
    posts.value = blank
    effects.value = null
    phase.value = 'waiting'
  })
  const tell = (told: GrowingText) => {
    if (stopped.aborted) return
    write(told.round, told.seat, { text: told.text, tokens: told.tokens })
    startRevealing(from)
  }
  try {
    const result = await host.play(
      {
        settings: settings.peek(),
        problem: problem.peek()!,
        arm: arm.peek(),
        policy: policy.peek(),
        draw,
        ...(edited && { edited }),
      },
      { tell, signal: stopped },
    )
    if (stopped.aborted) return
    played = result
    result.episode.rounds.forEach((round, r) => {
      if (r < from) return
      for (const post of round) write(r, post.seat, { text: post.text, tokens: post.tokens, post })
    })
    startRevealing(from)
    await measure(result)
  } catch (error) {
    if (!stopped.aborted) failed(error)
  }
}

async function measure(of: PlayedBoard): Promise<void> {
  const found = await host.influence({ board: of.board })
  if (played === of) effects.value = found
}

function write(round: number, seat: number, changes: Partial<StagePost>): void {
  posts.value = posts
    .peek()
    .map((each, r) =>
      r === round ? each.map((one) => (one.seat === seat ? { ...one, ...changes } : one)) : each,
    )
}

let revealing = false

/** Shows what is written, round by round, until all is shown. */
function startRevealing(from: number): void {
  if (revealing) return
  revealing = true
  phase.value = 'writing'
  const atOnce = matchMedia('(prefers-reduced-motion: reduce)').matches
  let last = performance.now()
  const frame = (now: number) => {
    const seconds = Math.min(0.1, (now - last) / 1000)
    last = now
    const rounds = posts.peek()
    const at = rounds.findIndex((round, r) => r >= from && round.some((one) => !isShown(one)))
    if (at < 0) {
      revealing = false
      phase.value = 'done'
      return
    }
    if (rounds[at].some(({ shown, text }) => shown < text.length)) {
      const next = advance(
        rounds[at].map(({ shown, text }) => ({ shown, there: text.length })),
        atOnce ? Number.POSITIVE_INFINITY : seconds,
      )
      posts.value = rounds.map((round, r) =>
        r === at ? round.map((one, i) => ({ ...one, shown: next[i] })) : round,
      )
    }
    requestAnimationFrame(frame)
  }
  requestAnimationFrame(frame)
}

/** Whether all of a post is there, and shown. */
export const isShown = ({ post, shown, text }: StagePost): boolean => post !== null && shown >= text.length
