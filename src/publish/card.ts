/**
 * The model card of a trained adapter, written from what the run found: README.md of its repository on the hub. Pure:
 * reads the record and the results alone.
 */
import { notePrompt, readPrompt } from '../board/prompts.ts'
import { printableLine } from '../printable.ts'
import type { Results } from '../record/results.ts'
import type { RunRecord } from '../record/schema.ts'
import { level } from '../report/numbers.ts'
import { changeSentence, said, trainingSentence } from '../report/sentences.ts'
import { tableMarkdown } from '../report/table.ts'
import { isKnownPrompt } from '../view/prompt.ts'

export interface CardFacts {
  /** The repository that the card stands in. */
  repository: string
  /** The base by its name on the hub. */
  baseModel: string
  arm: string
  /** Which of the arm's policies it is. */
  policy: string
  seed: number
  record: RunRecord
  results: Results
}

/** README.md: settings that the hub reads, then what a person should know. */
export function modelCard(facts: CardFacts): string {
  const { repository, baseModel, arm, policy, seed, record, results } = facts
  const { protocol, credit, train, policies } = record.identity.arms[arm]
  const [name] = repository.split('/').slice(-1)
  const sections = [
    settings(baseModel),
    `# ${line(name)}`,
    `A LoRA adapter for [${line(baseModel)}](https://huggingface.co/${baseModel}), trained with message-board: copies of ` +
      'the model write posts on a board, read each other, answer, and learn from whether they were right.',
    '## What was found',
    [trainingSentence(results), changeSentence(results)].map((one) => line(said(one))).join(' '),
    own(facts),
    ...results.contrasts
      .filter((one) => one.arm === arm || one.against === arm)
      .map((one) => `- **${line(`${one.arm} - ${one.against}`)}**: ${line(one.why)}`),
    '## How it was trained',
    [
      ['arm', `${arm}: the protocol "${protocol.name}", paid by ${credit.name}`],
      ...(Object.keys(policies).length === 1
        ? []
        : [['policy', `${policy}, of ${Object.keys(policies).join(', ')}`]]),
      ['training seed', `${seed}, of ${results.seeds.join(', ')}`],
      [
        'steps',
        String(results.arms[arm]?.stepsPerSeed[results.arms[arm]?.seeds.indexOf(seed) ?? -1] ?? train.steps),
      ],
      [
        'task',
        `${results.task.name}, ${results.task.train} training and ${results.task.holdout} held-out problems`,
      ],
      ['seats', protocol.seats.map((seat) => seat.name).join(', ')],
      ['verifier', `${record.identity.shared.grader.name} ${record.identity.shared.grader.version}`],
      [
        'settings',
        Object.entries(train)
          .map(([key, value]) => `${key} ${JSON.stringify(value)}`)
          .join(', '),
      ],
      [
        'versions',
        Object.entries(record.versions)
          .map(([key, value]) => `${key} ${value}`)
          .join(', '),
      ],
    ]
      .map(([what, value]) => `- ${what}: ${line(value)}`)
      .join('\n'),
    '## How to use it',
    usage(facts),
    '## What this does not say',
    'The verdict is on the arm over all its seeds, and on the held-out problems of this task alone. This adapter is one ' +
      'of those trainings: by itself it may be better or worse. It was trained to answer on a board of copies of itself, ' +
      'and was not tested as a model that is asked alone, on other tasks, or for safety.',
    '## All results',
    // The title and the two sentences stand above.
    tableMarkdown(results)
      .replace(/^.*?(?=^\|)/ms, '')
      .trim(),
  ]
  return `${sections.filter((text) => text !== '').join('\n\n')}\n`
}

/** YAML that the hub reads; each value as JSON, which is YAML too. */
function settings(baseModel: string): string {
  const fields = {
    base_model: baseModel,
    base_model_relation: 'adapter',
    library_name: 'peft',
    pipeline_tag: 'text-generation',
    tags: ['message-board', 'lora', 'grpo', 'multi-agent'],
  }
  const lines = Object.entries(fields).map(([key, value]) => `${key}: ${JSON.stringify(value)}`)
  return ['---', ...lines, '---'].join('\n')
}

/** How often this one adapter was right. */
function own({ arm, seed, results }: CardFacts): string {
  const found = results.arms[arm]
  const place = found?.seeds.indexOf(seed) ?? -1
  if (!found || place < 0) return ''
  return (
    `This adapter is seed ${seed} of the arm ${line(arm)}: right ${level(found.perSeed[place], found.ci95PerSeed[place])} ` +
    `of the time (pass@1 on ${results.task.holdout} held-out problems, with its 95% interval over problems).`
  )
}

function usage({ repository, baseModel, arm, record }: CardFacts): string {
  const { protocol } = record.identity.arms[arm]
  const code = [
    '```python',
    'from peft import PeftModel',
    'from transformers import AutoModelForCausalLM, AutoTokenizer',
    '',
    `base = AutoModelForCausalLM.from_pretrained(${JSON.stringify(baseModel)})`,
    `tokenizer = AutoTokenizer.from_pretrained(${JSON.stringify(baseModel)})`,
    `model = PeftModel.from_pretrained(base, ${JSON.stringify(repository)})`,
    '```',
  ].join('\n')
  const known = protocol.rounds.every((_, round) => isKnownPrompt(protocol, round))
  if (!known)
    return `${code}\n\nThe prompts that it was trained with are the experiment's own, and are not recorded.`
  const reads = protocol.rounds.some(({ sees }) => sees !== null)
  const shown = [
    ['a post is asked for as', notePrompt('QUESTION')[0].content],
    ...(reads ? [['an answer to posts as', readPrompt('QUESTION', ['POST', 'POST'])[0].content]] : []),
  ]
  return [
    code,
    ...shown.map(([what, text]) => `In the model's chat template, ${what}\n\n${quoted(text)}`),
  ].join('\n\n')
}

/** A text as a block that ends nowhere before its end. */
const quoted = (text: string): string =>
  text
    .split('\n')
    .map((each) => `    ${each}`)
    .join('\n')

/** One line of text; what a name holds is not read as Markdown's or HTML's own marks. */
const line = (text: string): string =>
  printableLine(text).replace(/[<>|`]/g, (mark) => `&#${mark.charCodeAt(0)};`)
