/**
 * Writes docs/run-folder.md: every file of a run folder, and every field of those that have a schema. Fields and their types come
 * from the schemas (src/record), what they are from the words below: a field without words is an error, and so are words without a field.
 *
 *   npx tsx scripts/run-folder.ts
 */
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { writeFileAtomic } from '../src/files.ts'
import { influenceSchema } from '../src/record/influence.ts'
import {
  metricsSchema,
  notesSchema,
  progressSchema,
  recordSchema,
  rolloutSchema,
} from '../src/record/schema.ts'
import { table } from './markdown.ts'

/** What of JSON Schema the run folder's schemas use. */
interface Node {
  type?: string | string[]
  const?: unknown
  enum?: unknown[]
  minimum?: number
  maximum?: number
  pattern?: string
  properties?: Record<string, Node>
  required?: string[]
  additionalProperties?: Node | false
  items?: Node
  prefixItems?: Node[]
  anyOf?: Node[]
}

/** A type in a few words. */
function typeOf(node: Node): string {
  if (node.const !== undefined) return `\`${JSON.stringify(node.const)}\``
  if (node.enum) return node.enum.map((value) => `\`${JSON.stringify(value)}\``).join(' or ')
  if (node.anyOf) return node.anyOf.map(typeOf).join(' or ')
  if (Array.isArray(node.type)) return node.type.join(' or ')
  if (node.prefixItems) return `[${node.prefixItems.map(typeOf).join(', ')}]`
  if (node.type === 'array') return `list of ${typeOf(node.items ?? {})}`
  if (node.type === 'integer') return 'count'
  if (node.type === 'number' && node.minimum === 0 && node.maximum === 1) return 'share'
  if (node.type === 'string' && node.pattern === '^[0-9a-f]{64}$') return 'SHA-256'
  return node.type ?? 'anything'
}

interface Field {
  path: string
  type: string
  optional: boolean
}

/** Every field below a node: `a.b`, `list[].field`, `record.*.field`. */
function fieldsOf(node: Node, path = ''): Field[] {
  const inside = (child: Node | undefined, at: string): Field[] => (child ? fieldsOf(child, at) : [])
  const own = Object.entries(node.properties ?? {}).flatMap(([name, child]): Field[] => {
    const at = path === '' ? name : `${path}.${name}`
    return [
      { path: at, type: typeOf(child), optional: !node.required?.includes(name) },
      ...fieldsOf(child, at),
    ]
  })
  return [
    ...own,
    ...inside(node.items, `${path}[]`),
    ...inside(node.additionalProperties || undefined, `${path}.*`),
    ...(node.anyOf ?? []).flatMap((child) => fieldsOf(child, path)),
  ]
}

type Words = Readonly<Record<string, string>>

/** A table of all fields. Objects and lists stand in it where there is something to say of them as a whole. */
function fieldTable(file: string, schema: z.ZodType, words: Words): string {
  const fields = fieldsOf(z.toJSONSchema(schema) as Node)
  const hasInside = ({ path }: Field) =>
    fields.some((other) => /^(\.|\[)/.test(other.path.slice(path.length)) && other.path.startsWith(path))
  const silent = fields.filter((field) => !(field.path in words) && !hasInside(field))
  const unknown = Object.keys(words).filter((path) => !fields.some((field) => field.path === path))
  if (silent.length > 0 || unknown.length > 0) {
    const said = [
      ...silent.map(({ path }) => `${path} has no words`),
      ...unknown.map((path) => `${path} is no field`),
    ]
    throw new Error(`${file}: ${said.join('; ')}. Mend the words in scripts/run-folder.ts.`)
  }
  const rows = fields
    .filter(({ path }) => path in words)
    .map(({ path, type, optional }) => [
      `\`${path}\``,
      type.replaceAll('|', '\\|'),
      words[path] + (optional ? ' May be absent.' : ''),
    ])
  return table(['field', 'type', 'what it is'], rows)
}

const experiment: Words = {
  kind: "Marks the folder as this project's.",
  schemaVersion: 'Of all files of the folder.',
  identity: 'All that decides what jobs compute. Two jobs of equal identity compute the same.',
  'identity.shared': 'What all arms have alike, and must, to be compared.',
  'identity.shared.task': "The task's name and its configuration.",
  'identity.shared.task.name': 'Such as `clues`.',
  'identity.shared.data.train': 'Training problems.',
  'identity.shared.data.holdout': 'Held-out problems.',
  'identity.shared.data.dropped': 'Training problems left out for overlap with held-out ones.',
  'identity.shared.data.sha256': 'Of all problems.',
  'identity.shared.evaluation.baseRuns': "Evaluations of the untrained model under the baseline's protocol.",
  'identity.shared.evaluation.problemsAtOnce': 'Problems played at a time.',
  'identity.shared.evaluation.sampling.temperature': 'Of every draw of an evaluation.',
  'identity.shared.evaluation.sampling.topP': 'The nucleus.',
  'identity.shared.evaluation.readTokens':
    'Longest prompt with posts to read, in tokens; null: what the context leaves.',
  'identity.shared.template': 'What chat templates are given beside the chat.',
  'identity.shared.grader.name': 'The verifier.',
  'identity.shared.grader.version': 'Grades of two versions are not compared.',
  'identity.shared.engine': 'What computes, with what decides its last digits: device, threads.',
  'identity.shared.engine.name': '`onnx` or `tinker`.',
  'identity.shared.versions': 'Whose change makes it another experiment.',
  'identity.arms': 'By name, also those that are no longer compared.',
  'identity.arms.*.protocol.name': 'Such as `shared` or `debate 3`.',
  'identity.arms.*.protocol.seats[].name': 'The place at the board.',
  'identity.arms.*.protocol.seats[].policy': 'Who writes for it.',
  'identity.arms.*.protocol.rounds[].name': 'Such as `note`.',
  'identity.arms.*.protocol.rounds[].speakers': 'Seats, from 0.',
  'identity.arms.*.protocol.rounds[].sees': 'The name of the sight; null: the problem alone.',
  'identity.arms.*.protocol.rounds[].sights': 'What it shows each speaker, as pairs of round and seat.',
  'identity.arms.*.protocol.rounds[].prompt': 'A fingerprint of how speakers are asked.',
  'identity.arms.*.protocol.rounds[].maxTokens': 'At most so many new tokens a text.',
  'identity.arms.*.protocol.rounds[].sampling.train.temperature':
    'What this round draws otherwise in training.',
  'identity.arms.*.protocol.rounds[].sampling.train.topP': 'The same.',
  'identity.arms.*.protocol.rounds[].sampling.evaluation.temperature':
    'What it draws otherwise in evaluations.',
  'identity.arms.*.protocol.rounds[].sampling.evaluation.topP': 'The same.',
  'identity.arms.*.protocol.final': "Whose answer counts: each last speaker's, their vote, or one seat's.",
  'identity.arms.*.protocol.final.seat': 'That seat.',
  'identity.arms.*.credit': "The rule's name and its configuration.",
  'identity.arms.*.credit.name': 'Such as `readersOnly`.',
  'identity.arms.*.train': 'All settings of training (`TrainOptions`).',
  'identity.arms.*.train.steps': 'Updates.',
  'identity.arms.*.train.problemsPerStep': 'Problems a step.',
  'identity.arms.*.train.boards': 'Boards of each problem in a step.',
  'identity.arms.*.sampling.trained.temperature': 'Of texts that are trained on.',
  'identity.arms.*.sampling.trained.topP': 'Of these; 1.',
  'identity.arms.*.sampling.context.temperature': 'Of texts that are only read.',
  'identity.arms.*.sampling.context.topP': 'Of these.',
  'identity.arms.*.policies': 'By the names that seats give.',
  'identity.arms.*.policies.*.model': 'The checkpoint.',
  'identity.arms.*.policies.*.sha256': 'Of all its files that are read.',
  'identity.arms.*.policies.*.adapter': 'Where it starts, by its fingerprint; null: at the model itself.',
  'identity.arms.*.policies.*.trained': 'Whether it learns.',
  arms: 'Those that are compared now, in order.',
  came: 'All arms that the run has had, in the order in which they came; absent: the baseline, then `arms`.',
  baseline: 'The arm that others are compared with unless other pairs are named.',
  'contrasts[].arm': 'The pairs: this arm',
  'contrasts[].against': '... against this one.',
  seeds: 'Training seeds.',
  shard: 'The part of the jobs that this folder runs, `k/n`.',
  'looks.first': 'With `--until-resolved`: the seeds at the first look.',
  'looks.maxSeeds': 'Seeds an arm at which it ends.',
  model: "The model's name.",
  command:
    'The command line that made it, which `run FOLDER` gives again; absent where a program made the run.',
  'command.file': 'The experiment file as it was named; null: the built-in experiment.',
  'command.flags': "The flags that say what is run, each time's over those before.",
  versions: 'Of everything, Node too.',
  machine: 'Processor, cores, memory, system.',
  devices: 'Where it was computed, in the engine’s words: several where it went on elsewhere.',
  history: 'What happened to this run that its configuration does not say.',
  'history.read': 'Seeds with which a verdict was read at the plain level.',
  'history.regrades[].from': 'The verifier before,',
  'history.regrades[].to': 'and after.',
  'history.regrades[].evaluation.changed': 'Posts of evaluations whose grade changed,',
  'history.regrades[].evaluation.of': 'of so many.',
  'history.regrades[].training.changed':
    'Posts of training whose grade would be another. They were paid by the old one, which is kept.',
  'history.regrades[].training.of': 'Of so many.',
}

const progress: Words = {
  schemaVersion: 'As in `experiment.json`.',
  steps: 'Training steps taken; `checkpoint-N` holds the state after them.',
  trained: 'Whether training is over (from the start, where nothing is trained).',
  'tokens.sampled': 'Completion tokens that training sampled,',
  'tokens.scored': 'scored again for credit,',
  'tokens.trained': 'and trained on.',
  evaluated: 'Held-out problems evaluated.',
  'bytes.metrics':
    'Length of `metrics.jsonl` that belongs to this progress; what stands behind it is cut off.',
  'bytes.rollouts': 'The same of `rollouts.jsonl`.',
  'sha256.metrics': 'Of so many bytes.',
  'sha256.rollouts': 'Of so many bytes.',
  checkpoint: 'The files of `checkpoint-N`, by their paths in it.',
  'checkpoint.*.bytes': 'Its length.',
  'checkpoint.*.sha256': 'Its checksum.',
  'seconds.train': 'Wall-clock seconds of training that were kept.',
  'seconds.evaluation': 'The same of the evaluation.',
}

const metrics: Words = {
  step: '1 for the first.',
  reward:
    "Share of the step's replies that are right, before the update. What they earned is in `rounds[].credit`.",
  informative:
    "Share of the last round's groups whose members did not all earn the same: the others teach nothing.",
  noteAcc: 'Share of notes that are right; null where there are none.',
  loss: 'The policy-gradient loss, summed as the engine is given it. It says little: watch `reward`.',
  gradNorm: 'Global L2 norm of the gradient before clipping; null where the engine does not tell.',
  learningRate: 'Of this step.',
  clippedShare: 'Share of tokens whose ratio was clipped; 0 on-policy.',
  logprobDrift:
    'Mean difference of log-probabilities when sampled and when scored. Rounding alone: near 0, or something is wrong.',
  entropy:
    'Entropy of what trained policies draw in trained rounds, in nats a token, estimated from what they drew; null where the engine does not tell.',
  kl: 'Distance from where training started, KL(now || start) in nats a token of replies, before the update; null in steps that do not measure it.',
  replyChars: 'Mean length of a reply, in characters.',
  repliesCut: 'Share of replies ended by the token limit.',
  sampledTokens: 'Completion tokens sampled,',
  scoredTokens: 'scored again for credit,',
  trainedTokens: 'and trained on.',
  effective: "Mean effective sample size of the credit's reweighted estimates; null where it makes none.",
  'rounds[].name': 'One entry for each round, the first first.',
  'rounds[].right': 'Share of its posts that are right.',
  'rounds[].chars': 'Mean length, in characters,',
  'rounds[].tokens': 'and in tokens.',
  'rounds[].cut': 'Share ended by the token limit.',
  'rounds[].credit': 'Of a round that is paid; null where it is context.',
  'rounds[].credit.mean': 'What its posts earned, in the mean,',
  'rounds[].credit.spread': 'and their standard deviation.',
  'rounds[].credit.informative': 'Share of its groups whose members did not all earn the same.',
  'rounds[].credit.withOwn':
    'Correlation of what posts earned with being right; null where either does not vary.',
  'rounds[].credit.unpaid': 'Share of posts that earned nothing at all and are not trained.',
  'seconds.rounds': 'Wall-clock seconds of each round,',
  'seconds.credit': 'of credit,',
  'seconds.forwardBackward': 'of the gradient,',
  'seconds.optimStep': 'and of the update.',
}

const rollouts: Words = {
  phase: 'What it was played for.',
  step: 'The training step, 1 for the first.',
  board: 'Which of several boards of this problem in a step; there where a step plays several.',
  'problem.id': 'Unique within the task, the same on every machine.',
  'problem.question': 'As asked.',
  'problem.gold': 'The right answer.',
  'problem.parts': 'Facts dealt to the seats.',
  rounds: 'Posts by round, in the order of its speakers.',
  'rounds[][].seat': 'Who wrote it, from 0.',
  'rounds[][].reads': 'The posts that it was shown, as pairs of round and seat, in the order shown.',
  'rounds[][].text': 'As written.',
  'rounds[][].tokens': 'It took so many, the stop token included.',
  'rounds[][].answer': 'Its final answer as the verifier read it.',
  'rounds[][].correct': 'Whether that equals the gold.',
  'rounds[][].cut': 'Ended by the token limit.',
  credit: 'In training, what each post earned, laid out as `rounds`; null: nothing, and it is not trained.',
}

const influence: Words = {
  problem: "The problem's id; lines stand in the order of the job's evaluation.",
  'effects[].note': 'The post that was left out, as round and seat.',
  'effects[].post': 'The post that was scored again without it.',
  'effects[].change':
    'Log-probability of that post with the note, less without it, in nats: above 0 where the note made it likelier.',
}

const notes: Words = {
  note: 'Free text.',
  tags: 'Different words, in the order in which they were given.',
}

/** The whole page. */
export function runFolderPage(): string {
  return `# The run folder

Written by \`npx tsx scripts/run-folder.ts\` from the schemas that every reader of a folder checks it with
([schema.ts](../src/record/schema.ts)); a test holds it to them.

Everything that a run knows is in files that a person can read. They are written whole or not at all, and a folder that was damaged is
said to be: lengths, checksums, schemas and the order of problems are checked wherever it is read. A **count** is a whole number of
at least 0, a **share** a number from 0 to 1; seats and rounds count from 0.

\`\`\`text
runs/NAME/
  experiment.json           what the run is: its resolved configuration, seeds, versions, machine
  base-baseline-1/ ...      the untrained model under each arm's protocol, a job each
    rollouts.jsonl
    progress.json
  recipe-s17/ ...           one arm trained with one seed, a job each
    metrics.jsonl           a line for each training step
    rollouts.jsonl          a line for each board played, in training and in the evaluation
    progress.json           how far the job is; written last
    influence.jsonl         by \`message-board influence\`
    checkpoint-40/          the state after so many steps
      adapter_config.json, adapter_model.safetensors       the adapter, in PEFT's layout
      optimizer.json, optimizer.safetensors                the optimiser's state
  results.json              what was found
  notes.json                what a person says of it
  report.html, table.md, post.md                           the same for people
  tensorboard/              with \`--log tensorboard\`
\`\`\`

Where an arm trains several policies, each has a folder of its name in \`checkpoint-40\`. Files whose names begin with a dot
(\`.lock-1\`, \`.staged\`) and \`running.json\` belong to whoever is at work. \`experiment.json\`, \`progress.json\` and
\`results.json\` end in \`seal\`, a checksum of all that stands before it.

To read a run in a program: \`resultsSchema\` of the package parses \`results.json\`; the logs are JSON, a line each.

## experiment.json

${fieldTable('experiment.json', recordSchema, experiment)}

## progress.json

${fieldTable('progress.json', progressSchema, progress)}

## metrics.jsonl

A line for each training step.

${fieldTable('metrics.jsonl', metricsSchema, metrics)}

## rollouts.jsonl

A line for each board played: in training in the order of the steps, then the evaluation in the order of the held-out problems.

${fieldTable('rollouts.jsonl', rolloutSchema, rollouts)}

## influence.jsonl

A line for each held-out problem. It is no part of the job: it can be deleted and measured again.

${fieldTable('influence.jsonl', influenceSchema, influence)}

## notes.json

What a person says of the run, in the dashboard. It is no part of what was found.

${fieldTable('notes.json', notesSchema, notes)}

## results.json

What was found has [a page of its own](results.md).

## What \`eval\` keeps

\`eval --out DIR\` keeps \`texts.jsonl\` (a line for each round that was written: a \`key\` of all that decides its texts, and the
\`texts\`), or of an endpoint \`answers.jsonl\`, a line for each answer. The same command reads what is there and asks for the rest.
`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await writeFileAtomic(fileURLToPath(new URL('../docs/run-folder.md', import.meta.url)), runFolderPage())
}
