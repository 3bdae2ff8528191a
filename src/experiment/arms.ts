/**
 * Arms: each is a patch over what an experiment says for all. What must be equal to compare them (task, held-out
 * problems, evaluation, grader, seeds) is shared and cannot be patched. Pure.
 */
import { type BoardSizes, type Protocol, type ProtocolChoices, resolveProtocol } from '../board/protocol.ts'
import { board } from '../board/protocols.ts'
import type { Sight } from '../board/sights.ts'
import { UserError } from '../errors.ts'
import { readersOnly } from '../train/credit/readers-only.ts'
import type { Credit } from '../train/credit/types.ts'
import { isTrained, type TrainSampling, trainSampling } from '../train/loop.ts'
import type { TrainChoices, TrainOptions } from '../train/options.ts'

/** What a user states of an arm. Everything left out is the experiment's. */
export interface ArmChoices {
  /** Short for `protocol: board({ reads })`. */
  reads?: Sight
  protocol?: ProtocolChoices
  /** What each post earns; `readersOnly()` unless told. */
  credit?: Credit
  train?: TrainChoices
  /** How training draws its texts. */
  sampling?: { [Part in keyof TrainSampling]?: Partial<TrainSampling[Part]> }
  /** Another model than the experiment's. */
  model?: string
  /** A folder with an adapter in PEFT's layout to start from. */
  adapter?: string
  /** The policies that seats name, where they are to differ from the arm's. */
  policies?: Readonly<Record<string, Partial<PolicySettings>>>
}

/** A policy that seats name. */
export interface PolicySettings {
  model: string
  /** Where it starts: a folder with an adapter; null: the model itself. */
  adapter: string | null
  /** A policy that is not trained is a frozen teammate. */
  trained: boolean
}

/** A complete and checked arm. */
export interface Arm {
  protocol: Protocol
  credit: Credit
  train: TrainOptions
  sampling: TrainSampling
  /** All that its seats name. */
  policies: Readonly<Record<string, PolicySettings>>
}

/** What an experiment says for all its arms. */
export interface ArmDefaults {
  sizes: BoardSizes
  train: TrainOptions
  sampling: TrainSampling
  model: string
}

/** The default experiment's two arms: the one thing that differs is what a reader sees. */
export const defaultArms = (sights: { own: Sight; shared: Sight }): Record<string, ArmChoices> => ({
  baseline: { reads: sights.own },
  recipe: { reads: sights.shared },
})

/**
 * Completes an arm and checks that it can be played and trained.
 *
 * @throws UserError naming the arm, the setting and what it may be.
 */
export function resolveArm(name: string, choices: ArmChoices, defaults: ArmDefaults): Arm {
  const refuse = (what: string): never => {
    throw new UserError(`The arm "${name}" ${what}.`)
  }
  if (choices.reads && choices.protocol)
    refuse('has both `reads` and `protocol`: `reads` is short for a board, leave one out')
  const protocol = resolveProtocol(choices.protocol ?? board({ reads: choices.reads }), defaults.sizes)
  const credit = choices.credit ?? readersOnly()
  const { train, sampling } = defaults
  const arm: Arm = {
    protocol,
    credit,
    train: { ...train, ...choices.train, lora: { ...train.lora, ...choices.train?.lora } },
    sampling: {
      trained: { ...sampling.trained, ...choices.sampling?.trained },
      context: { ...sampling.context, ...choices.sampling?.context },
    },
    policies: policiesOf(protocol, choices, defaults.model, refuse),
  }
  checkTraining(arm, refuse)
  return arm
}

function policiesOf(
  protocol: Protocol,
  { policies = {}, model, adapter }: ArmChoices,
  shared: string,
  refuse: (what: string) => never,
): Arm['policies'] {
  const named = new Set(protocol.seats.map(({ policy }) => policy))
  const idle = Object.keys(policies).filter((policy) => !named.has(policy))
  if (idle.length > 0) {
    refuse(
      `has the policy "${idle[0]}", which no seat names (they name ${[...named].join(', ')}): name it or leave it out`,
    )
  }
  return Object.fromEntries(
    [...named].map((policy) => [
      policy,
      { model: model ?? shared, adapter: adapter ?? null, trained: true, ...policies[policy] },
    ]),
  )
}

/** Refuses what cannot be learned from, or would be learned from wrongly. */
function checkTraining(
  { protocol, credit, train, sampling, policies }: Arm,
  refuse: (what: string) => never,
): void {
  const { rounds, seats } = protocol
  if (!Object.values(policies).some(({ trained }) => trained)) {
    refuse('trains no policy: leave `trained: false` out of one')
  }
  if (credit.paysNotes && rounds.length < 2) {
    refuse(`pays notes (${credit.name}) and has one round: there are no notes, use readersOnly()`)
  }
  if (train.boards < credit.boards) {
    refuse(
      `has the credit ${credit.name}, which compares ${credit.boards} boards of a problem: set train.boards to ${credit.boards} or more`,
    )
  }
  const played = credit.inTraining?.(protocol) ?? protocol
  const drawn = trainSampling(played, credit, sampling)
  const last = drawn[drawn.length - 1]
  for (const [r, { topP, temperature }] of drawn.entries()) {
    if (!isTrained(played, credit, r)) continue
    if (topP !== 1) {
      refuse(
        `trains round ${r + 1} ("${rounds[r].name}") and draws it with topP ${topP}, but the loss scores the whole ` +
          'distribution: a nucleus would bias it; set its topP in training to 1',
      )
    }
    if (temperature !== last.temperature) {
      refuse(
        `trains rounds at temperatures ${temperature} and ${last.temperature}, and one loss scores at one: make them equal`,
      )
    }
  }
  // A group of one has nobody to be better than.
  const sizes = rounds.flatMap(({ speakers }, r) =>
    isTrained(protocol, credit, r)
      ? Object.entries(policies)
          .filter(([, { trained }]) => trained)
          .map(([policy]) => speakers.filter((seat) => seats[seat].policy === policy).length * train.boards)
      : [],
  )
  if (!sizes.some((size) => size > 1)) {
    refuse(
      'would compare each text with itself alone, so nothing could be learned: set train.boards to 2 or more, or let ' +
        'several seats of one trained policy speak',
    )
  }
  if (train.roundWeights && train.roundWeights.length !== rounds.length) {
    refuse(`has ${train.roundWeights.length} roundWeights and ${rounds.length} rounds: give one for each`)
  }
}
