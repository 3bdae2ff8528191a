/**
 * `npm run test:peers`: the project against the programs that the field uses, live, on real sizes. Too heavy for CI:
 * the first run downloads some gigabytes of Python packages.
 *
 *     npm run test:peers                       every check
 *     npm run test:peers -- tokens logits      some of them
 *
 * Prints one line for each comparison; the exit code is 1 where one differs by more than it may. The last check, speed,
 * compares times and memory and fails nothing.
 */
import { spawnSync } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { notePrompt, readPrompt } from '../../../src/board/prompts.ts'
import { loadAdapter } from '../../../src/engine/checkpoint/adapter.ts'
import { openCheckpoint } from '../../../src/engine/checkpoint/folder.ts'
import { openBase } from '../../../src/engine/onnx/base.ts'
import { openOnnxEngine } from '../../../src/engine/onnx/index.ts'
import { defaultLimits } from '../../../src/engine/onnx/limits.ts'
import { loraPolicy } from '../../../src/engine/onnx/policy.ts'
import { openLogits } from '../../../src/engine/onnx/testing/logits.ts'
import { adamStep } from '../../../src/engine/testing/update.ts'
import { exportRun } from '../../../src/exports/index.ts'
import type { Results } from '../../../src/record/results.ts'
import type { TemplateArguments } from '../../../src/tokens/template.ts'
import { loadTokenizer } from '../../../src/tokens/tokenizer.ts'
import { policyBatch } from '../../../src/train/grpo.ts'
import { threeArms, writeSyntheticRun } from '../../../src/view/testing/synthetic-run.ts'
import { ask, peersPython, questions, smolLm2, tokenizerFolder } from './peers.ts'
import { speed } from './speed.ts'

const fixture = (name: string) =>
  fileURLToPath(new URL(`../../../src/engine/fixtures/${name}`, import.meta.url))
const models = ['llama', 'llama3', 'qwen2', 'qwen3']

let failed = 0
let compared = 0
function report(passed: boolean, name: string, detail: string): void {
  compared++
  if (!passed) failed++
  process.stdout.write(`${passed ? 'ok  ' : 'FAIL'}  ${name.padEnd(44)} ${detail}\n`)
}

/** Largest |a - b|. */
function difference(a: Float32Array, b: Float32Array | undefined): number {
  if (b?.length !== a.length) return Number.POSITIVE_INFINITY
  return a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i])), 0)
}
const small = (value: number) => value.toExponential(1)

/** Token ids and rendered chats. */
async function tokens(): Promise<void> {
  const texts = await questions()
  const chats = texts.flatMap((question, i) => {
    const notes = [0, 1, 2, 3].map((n) => `${texts[(i + n) % texts.length]} = \\boxed{${i + n}}\n`)
    return [notePrompt(question), readPrompt(question, notes)]
  })
  // The system message that people add, and turns that follow each other.
  chats.push([{ role: 'system', content: 'Be brief.' }, ...notePrompt(texts[0])])
  chats.push([...notePrompt(texts[0]), { role: 'assistant', content: '42' }, ...notePrompt(texts[1])])
  const folders: [string, string][] = [
    ['SmolLM2', await smolLm2()],
    ['Qwen2.5', await tokenizerFolder('qwen2_5')],
    ['Qwen3', await tokenizerFolder('qwen3')],
    ['Llama 3', await tokenizerFolder('llama3')],
    ['Llama 3.1', await tokenizerFolder('llama3_1')],
  ]
  for (const [name, folder] of folders) {
    const tokenizer = await loadTokenizer(folder)
    const { answer } = await ask<{ texts: number[][]; chats: number[][] }>('peers.py', 'tokens', {
      folder,
      texts,
      chats,
    })
    const same = (a: number[], b: number[]) => JSON.stringify(a) === JSON.stringify(b)
    const equalTexts = texts.filter((text, i) => same(tokenizer.encode(text), answer.texts[i])).length
    report(
      equalTexts === texts.length,
      `tokens, ${name}`,
      `ids of ${equalTexts} of ${texts.length} questions equal transformers'`,
    )
    const equalChats = chats.filter((chat, i) => same(tokenizer.chat(chat), answer.chats[i])).length
    report(
      equalChats === chats.length,
      `chats, ${name}`,
      `ids of ${equalChats} of ${chats.length} rendered prompts equal transformers'`,
    )
  }
}

async function compareLogits(
  name: string,
  folder: string,
  sequences: number[][],
  allowed: number,
  adapter?: string,
): Promise<void> {
  const { tensors } = await ask('peers.py', 'logits', { folder, sequences, adapter })
  await reportLogits(name, { folder, adapter }, sequences, allowed, (i) => tensors.get(String(i)))
}

async function reportLogits(
  name: string,
  { folder, adapter }: { folder: string; adapter?: string },
  sequences: number[][],
  allowed: number,
  theirs: (i: number) => Float32Array | undefined,
): Promise<void> {
  const ours = await openLogits(folder, { adapter })
  let most = 0
  for (const [i, sequence] of sequences.entries()) {
    most = Math.max(most, difference(await ours.of(sequence), theirs(i)))
  }
  await ours.close()
  const count = sequences.reduce((sum, { length }) => sum + length, 0)
  report(most <= allowed, name, `largest difference ${small(most)} of ${allowed} over ${count} positions`)
}

const someSequences = (vocabulary: number) =>
  [5, 17, 40].map((length) => Array.from({ length }, (_, i) => (7 * i * i + 3 * i + length) % vocabulary))

/** Logits of base models: real, and small and random in other precisions and several files. */
async function logits(): Promise<void> {
  const folder = await smolLm2()
  const tokenizer = await loadTokenizer(folder)
  const prompts = (await questions()).slice(0, 4).map((question) => tokenizer.chat(notePrompt(question)))
  await compareLogits('logits, SmolLM2-135M-Instruct', folder, prompts, 1e-3)
  const scratch = await mkdtemp(join(tmpdir(), 'peers-models-'))
  for (const name of models) {
    await compareLogits(`logits, ${name} (random)`, fixture(name), someSequences(96), 1e-3)
    for (const [dtype, shardBytes] of [
      ['bfloat16', 20_000],
      ['float16', 10_000_000],
    ] as const) {
      const out = join(scratch, `${name}-${dtype}`)
      const { answer } = await ask<{ files: string[] }>('peers.py', 'save_as', {
        folder: fixture(name),
        out,
        dtype,
        shardBytes,
      })
      const what = `logits, ${name} (${dtype}, ${answer.files.length} file${answer.files.length > 1 ? 's' : ''})`
      await compareLogits(what, out, someSequences(96), 1e-3)
    }
  }
  await rm(scratch, { recursive: true })
}

/** Adapters of every kind that PEFT makes: honoured, or refused by the setting's name. */
async function adapters(): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), 'peers-variants-'))
  for (const model of models) {
    const folder = fixture(model)
    const { config } = await openCheckpoint(folder)
    const out = join(scratch, model)
    const sequences = someSequences(96)
    const { answer, tensors } = await ask<{ honoured: string[]; refused: string[] }>('peers.py', 'adapters', {
      folder,
      out,
      sequences,
    })
    for (const name of answer.honoured) {
      const files = { folder, adapter: join(out, name) }
      await reportLogits(`PEFT's ${name}, ${model}`, files, sequences, 1e-4, (i) =>
        tensors.get(`${name}.${i}`),
      )
    }
    for (const name of answer.refused) {
      const [setting] = name.split(',')
      const said = await loadAdapter(join(out, name), config).then(
        () => 'it was loaded',
        ({ message }: Error) => message,
      )
      report(
        said.includes(`sets ${setting} to `),
        `PEFT's ${name}, ${model}`,
        said.replace(/^\S+ /, '').slice(0, 100),
      )
    }
  }
  await rm(scratch, { recursive: true })
}

/** Thinking models' templates, with their arguments. */
async function thinking(): Promise<void> {
  const texts = (await questions()).slice(0, 200)
  const chats = texts.flatMap((question, i) => [
    notePrompt(question),
    readPrompt(question, [`${texts[(i + 1) % texts.length]} = \\boxed{${i}}\n`]),
    [...notePrompt(question), { role: 'assistant' as const, content: '\n 42 ' }, ...notePrompt(texts[0])],
  ])
  const qwen3 = await tokenizerFolder('qwen3')
  const variants = JSON.parse(
    await readFile(new URL('../../../src/tokens/fixtures/variants.json', import.meta.url), 'utf8'),
  ) as { name: string; files: Record<string, unknown>; cases: { arguments: TemplateArguments }[] }[]
  for (const { name, files, cases } of variants) {
    const template = files['chat_template.jinja']
    if (typeof template !== 'string') continue
    const folder = await mkdtemp(join(tmpdir(), 'peers-template-'))
    await cp(qwen3, folder, { recursive: true })
    await writeFile(join(folder, 'chat_template.jinja'), template)
    for (const given of new Set(cases.map((one) => JSON.stringify(one.arguments)))) {
      const settings = JSON.parse(given) as TemplateArguments
      const tokenizer = await loadTokenizer(folder, { template: settings })
      const { answer } = await ask<{ chats: number[][] }>('peers.py', 'tokens', {
        folder,
        texts: [],
        chats,
        template: settings,
      })
      const equal = chats.filter(
        (chat, i) => JSON.stringify(tokenizer.chat(chat)) === JSON.stringify(answer.chats[i]),
      )
      report(
        equal.length === chats.length,
        `template, ${name} ${given}`,
        `ids of ${equal.length} of ${chats.length} chats equal transformers'`,
      )
    }
    await rm(folder, { recursive: true })
  }
}

/** Greedy continuations by the sampler and its cache. */
async function greedy(): Promise<void> {
  const folder = await smolLm2()
  const engine = await openOnnxEngine({ model: folder })
  const policy = await engine.createPolicy()
  const { tokenizer } = engine
  const prompts = (await questions()).slice(0, 20).map((question) => tokenizer.chat(notePrompt(question)))
  const count = 64
  const completions = await policy.sample(
    prompts.map((prompt) => ({ prompt, seeds: [0] })),
    // A nucleus of one token: the likeliest.
    { maxTokens: count, temperature: 1, topP: 1e-9, stop: tokenizer.stop },
  )
  await engine.close()
  const { answer } = await ask<{ completions: number[][]; gaps: number[][] }>('peers.py', 'greedy', {
    folder,
    prompts,
    count,
    stop: tokenizer.stop,
  })
  const departures = completions.flatMap(([{ tokens: ours }], i) => {
    const theirs = answer.completions[i]
    const at = theirs.findIndex((token, t) => token !== ours[t])
    return at < 0 && ours.length === theirs.length
      ? []
      : [
          `question ${i + 1} at token ${at + 1}, where their two best are ${answer.gaps[i][at]?.toFixed(6)} apart`,
        ]
  })
  report(
    departures.length === 0,
    'greedy, SmolLM2-135M-Instruct',
    `${20 - departures.length} of 20 continuations of ${count} tokens equal${departures.map((text) => `; ${text}`).join('')}`,
  )
}

/** One GRPO update from TRL's rollouts, and the saved adapter in PEFT. */
async function grpo(): Promise<void> {
  const adam = adamStep()
  const settings = { temperature: 0.9, clipLow: 0.2, clipHigh: 0.28 }
  const scratch = await mkdtemp(join(tmpdir(), 'peers-adapters-'))
  for (const name of models) {
    const folder = fixture(name)
    const adapter = join(folder, 'adapter')
    const prompts = [
      [5, 9, 11],
      [20, 30, 40, 50, 60],
      [7, 8],
      [90, 80, 70, 60],
    ]
    const { answer, tensors } = await ask<{
      groups: {
        rollouts: { prompt: number[]; completion: number[] }[]
        rewards: number[]
        advantages: number[]
      }[]
      loss: number
      gradNorm: number
      sequences: number[][]
    }>('trl_update.py', null, { folder, adapter, copies: 4, newTokens: 40, prompts, adam, ...settings })

    const { config, loadWeights } = await openCheckpoint(folder)
    const { rank, alpha } = await loadAdapter(adapter, config)
    const base = openBase(config, await loadWeights(), defaultLimits(config, 1))
    const policy = loraPolicy(base, name, { rank, alpha, seed: 0 })
    await policy.load(adapter)
    const rollouts = answer.groups.flatMap((group) => group.rollouts)
    const logprobs = await policy.logprobs(rollouts, settings)
    let next = 0
    const groups = answer.groups.map(({ rollouts, rewards }) => ({
      rewards,
      rollouts: rollouts.map((rollout) => ({ ...rollout, logprobs: [...logprobs[next++]] })),
    }))
    const { loss } = await policy.forwardBackward(policyBatch(groups), {
      kind: 'policy_gradient',
      ...settings,
    })
    const { gradNorm } = await policy.optimStep(adam)
    const saved = join(scratch, name)
    await policy.save(saved)
    await base.close()

    const off = Math.abs(loss / answer.loss - 1)
    report(
      off <= 1e-5,
      `GRPO's loss, ${name}`,
      `${loss.toFixed(7)}, TRL's ${answer.loss.toFixed(7)}: off by ${small(off)}`,
    )
    const normOff = Math.abs(gradNorm / answer.gradNorm - 1)
    report(
      normOff <= 1e-4,
      `GRPO's gradient norm, ${name}`,
      `${gradNorm.toFixed(6)}, off by ${small(normOff)}`,
    )
    const updated = await openLogits(folder, { adapter: saved })
    let most = 0
    for (const [i, sequence] of answer.sequences.entries()) {
      most = Math.max(most, difference(await updated.of(sequence), tensors.get(String(i))))
    }
    await updated.close()
    report(most <= 1e-4, `the updated adapter's logits, ${name}`, `largest difference ${small(most)} of 1e-4`)
    await compareLogits(`the saved adapter in PEFT, ${name}`, folder, answer.sequences, 1e-4, saved)
  }
  await rm(scratch, { recursive: true })
}

/** The hub's cache, as Python's client reads it. */
async function cache(): Promise<void> {
  const { status, stdout } = spawnSync(
    process.execPath,
    ['node_modules/vitest/vitest.mjs', 'run', 'src/hub', '-t', 'huggingface_hub'],
    { env: { ...process.env, PEERS_PYTHON: await peersPython() }, encoding: 'utf8' },
  )
  const passed = /Tests\s+.*?(\d+) passed/.exec(stripAnsi(stdout))?.[1] ?? '0'
  report(status === 0 && passed === '1', "the hub's cache in huggingface_hub", `${passed} test passed`)
}

/** A run's exports, as Inspect, DuckDB and pyarrow read them. */
async function exports(): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), 'exports-'))
  const run = join(scratch, 'run')
  await writeSyntheticRun(run, { holdout: 30, train: 24, steps: 4, problemsPerStep: 3, arms: threeArms })
  const [logs, tables] = [join(scratch, 'inspect'), join(scratch, 'parquet')]
  const written = await exportRun(run, 'inspect', logs)
  await exportRun(run, 'parquet', tables)
  const { answer } = await ask<{
    accuracy: Record<string, [said: number, mean: number]>
    finals: Record<string, number>
    rows: number
    steps: number
  }>('exports.py', null, { inspect: logs, parquet: tables })
  const results = JSON.parse(await readFile(join(run, 'results.json'), 'utf8')) as Results
  const passAt1 = Object.entries(results.arms).flatMap(([arm, found]) =>
    (found?.seeds ?? []).map((seed, s) => [`${arm}-s${seed}`, found!.perSeed[s]] as const),
  )
  const near = (a: number | undefined, b: number) => a !== undefined && Math.abs(a - b) < 1e-9
  const logged = passAt1.filter(([job, value]) => answer.accuracy[job]?.every((one) => near(one, value)))
  report(
    logged.length === passAt1.length && Object.keys(answer.accuracy).length === written.length,
    "evaluations in Inspect's reader",
    `accuracy of ${logged.length} of ${passAt1.length} trainings is pass@1, of ${written.length} logs`,
  )
  const queried = passAt1.filter(([job, value]) => near(answer.finals[job], value))
  report(
    queried.length === passAt1.length && answer.steps === passAt1.length * 4,
    'Parquet in DuckDB and pyarrow',
    `mean of ${queried.length} of ${passAt1.length} trainings is pass@1, of ${answer.rows} posts and ${answer.steps} steps`,
  )
  await rm(scratch, { recursive: true })
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: colours are what it removes
const stripAnsi = (text: string) => text.replace(/\u001b\[\d+m/g, '')

const checks = { tokens, thinking, logits, adapters, greedy, grpo, cache, exports, speed }
const asked = process.argv.slice(2)
for (const name of asked) {
  if (!Object.hasOwn(checks, name)) {
    process.stderr.write(
      `There is no check "${name}": give some of ${Object.keys(checks).join(', ')}, or none for all.\n`,
    )
    process.exit(2)
  }
}
for (const [name, check] of Object.entries(checks)) {
  if (asked.length === 0 || asked.includes(name)) await check()
}
process.stdout.write(`\n${compared - failed} passed, ${failed} failed\n`)
process.exitCode = failed > 0 ? 1 : 0
