/**
 * All that a visitor can set, and its place in a link: the address's fragment, which never leaves the browser. A link
 * is text by anybody, so what it says is checked. Pure.
 */
import { z } from 'zod'
import { parseWiring, presets, SEATS, type Wiring, wiringName } from './wiring.ts'

/** What each rule pays a note stands in credit-rules.ts. */
export const ruleNames = [
  'readersOnly',
  'ownAnswer',
  'team',
  'readersOf',
  'replay',
  'rescore',
  'subsets',
  'mix',
] as const
export type RuleName = (typeof ruleNames)[number]

export const worldNames = ['clues', 'word-problems', 'insight'] as const
export type WorldName = (typeof worldNames)[number]

/** Where runs are computed: by the faster of the two, measured; by WebAssembly; on the browser's GPU. */
export const deviceNames = ['auto', 'wasm', 'webgpu'] as const
export type DeviceName = (typeof deviceNames)[number]

/** The two arms that are compared, by the names that the record knows them by. */
export const armNames = ['baseline', 'recipe'] as const
export type ArmName = (typeof armNames)[number]

/** Bounds: what a tab can do in minutes, and what the policy's context has room for. */
export const bounds = {
  rounds: { min: 2, max: 4 },
  steps: { min: 1, max: 400 },
  holdout: { min: 8, max: 480 },
  seeds: { max: 32 },
  text: { question: 600, gold: 60, part: 160 },
} as const

const wholeFrom = ({ min, max }: { min: number; max: number }) => z.number().int().min(min).max(max)

const armSchema = z.strictObject({
  /** By reader: the notes that it is shown. */
  reads: z.custom<Wiring>((value) => value !== null && Array.isArray(value) && value.length === SEATS),
  rounds: wholeFrom(bounds.rounds),
  credit: z.enum(ruleNames),
})

/** One of a world's held-out problems, or one of the visitor's own. */
const problemSchema = z.union([
  z.strictObject({ world: z.enum(worldNames), index: wholeFrom({ min: 0, max: 119 }) }),
  z.strictObject({
    question: z.string().min(1).max(bounds.text.question),
    gold: z.string().max(bounds.text.gold),
    parts: z.array(z.string().min(1).max(bounds.text.part)).max(SEATS),
  }),
])

const settingsSchema = z.strictObject({
  world: z.enum(worldNames),
  steps: wholeFrom(bounds.steps),
  holdout: wholeFrom(bounds.holdout),
  seeds: z
    .array(wholeFrom({ min: 0, max: 0xffff_ffff }))
    .min(1)
    .max(bounds.seeds.max)
    .refine((seeds) => new Set(seeds).size === seeds.length),
  arms: z.strictObject({ baseline: armSchema, recipe: armSchema }),
  device: z.enum(deviceNames),
  problem: problemSchema,
})

export type ArmSettings = z.infer<typeof armSchema>
export type ProblemChoice = z.infer<typeof problemSchema>
export type Settings = z.infer<typeof settingsSchema>

/** What is there at first: in the world where nobody can do it alone, do writers learn to tell if they are paid for it? */
export const firstSettings: Settings = {
  world: 'clues',
  steps: 40,
  holdout: 120,
  seeds: [17, 18],
  arms: {
    baseline: { reads: presets.shared, rounds: 2, credit: 'readersOnly' },
    recipe: { reads: presets.shared, rounds: 2, credit: 'team' },
  },
  device: 'auto',
  problem: { world: 'clues', index: 0 },
}

/** Settings as an address's fragment, without `#`. */
export function settingsLink({ world, steps, holdout, seeds, arms, device, problem }: Settings): string {
  const arm = ({ reads, rounds, credit }: ArmSettings) => `${wiringName(reads)}~${rounds}~${credit}`
  const fields = new URLSearchParams({
    world,
    steps: `${steps}`,
    holdout: `${holdout}`,
    seeds: seeds.join(' '),
    baseline: arm(arms.baseline),
    recipe: arm(arms.recipe),
  })
  if (device !== 'auto') fields.set('device', device)
  if ('world' in problem) fields.set('problem', `${problem.world} ${problem.index}`)
  else {
    fields.set('question', problem.question)
    fields.set('gold', problem.gold)
    for (const part of problem.parts) fields.append('part', part)
  }
  return fields.toString()
}

/** The settings that a fragment states; null for one that states none, or any that cannot be. */
export function parseLink(fragment: string): Settings | null {
  const fields = new URLSearchParams(fragment.replace(/^#/, ''))
  const whole = (text: string | null) => (text !== null && /^\d{1,10}$/.test(text) ? Number(text) : text)
  const arm = (name: ArmName) => {
    const [reads = '', rounds = null, credit] = (fields.get(name) ?? '').split('~')
    return { reads: parseWiring(reads), rounds: whole(rounds), credit }
  }
  const [world, index = null] = (fields.get('problem') ?? '').split(' ')
  const own = { question: fields.get('question'), gold: fields.get('gold'), parts: fields.getAll('part') }
  const parsed = settingsSchema.safeParse({
    world: fields.get('world'),
    steps: whole(fields.get('steps')),
    holdout: whole(fields.get('holdout')),
    seeds: (fields.get('seeds') ?? '').split(' ').map(whole),
    arms: { baseline: arm('baseline'), recipe: arm('recipe') },
    device: fields.get('device') ?? 'auto',
    problem: own.question === null ? { world, index: whole(index) } : own,
  })
  return parsed.success ? parsed.data : null
}
