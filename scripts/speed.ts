/**
 * Puts measured figures into docs/speed.md, between its markers: `npx tsx scripts/speed.ts`.
 *
 * From bench/results: `default-run.jsonl` (bench/default-run.ts), `cpu-small.json` (bench/gpu.ts) and
 * `cpu-small-trl.json` (test/live/peers/trl_step.py), `studies.jsonl` (bench/studies.ts), `report.json`,
 * `report-2m-problems.json` and `report-2m.json` (bench/report.ts), `sitting-h200.json` (bench/gpu.ts and test/live/peers/vllm_step.py and trl_step.py,
 * in one sitting), and what scripts/growth.ts reads.
 */
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { readJsonFile } from '../src/files.ts'
import { floor } from './floor.ts'
import { growth, rounds } from './growth.ts'
import { replaceSections, table } from './markdown.ts'
import { median } from './numbers.ts'

const at = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url))

const runSchema = z.object({
  sitting: z.string(),
  of: z.string(),
  flags: z.array(z.string()),
  seconds: z.number(),
  sampled: z.number(),
  processor: z.string(),
  threads: z.number(),
  node: z.string(),
  date: z.string(),
})

async function defaultRuns(): Promise<string> {
  const lines = (await readFile(at('bench/results/default-run.jsonl'), 'utf8'))
    .split('\n')
    .filter(Boolean)
    .map((line) => runSchema.parse(JSON.parse(line)))
  const named = new Map<string, typeof lines>()
  for (const line of lines) {
    const name = [line.sitting, line.of, ...line.flags].join()
    named.set(name, [...(named.get(name) ?? []), line])
  }
  const [{ of: first }] = lines
  // A machine is not the same every day: a version stands beside the first one's runs of its own sitting.
  const firstOf = (sitting: string) =>
    rateOf(lines.filter((line) => line.sitting === sitting && line.of === first))
  const rows = [...named.values()].map((some) => {
    const { of, flags, processor, threads, node, sitting } = some[0]
    const seconds = median(some.map((run) => run.seconds))
    return [
      sitting,
      `\`${[of, ...flags].join(' ')}\``,
      `${some.length}`,
      seconds.toFixed(1),
      `${Math.round(rateOf(some))}`,
      (rateOf(some) / firstOf(sitting)).toFixed(2),
      `${threads} x ${processor}, Node ${node.slice(1)}`,
    ]
  })
  return table(
    ['sitting', 'version', 'runs', 'seconds', 'sampled tokens a second', 'times the first', 'where'],
    rows,
  )
}

/** Of a whole run's seconds, those of evaluations too. */
const rateOf = (some: readonly z.infer<typeof runSchema>[]) =>
  some[0].sampled / median(some.map(({ seconds }) => seconds))

const oursSchema = z.object({
  processor: z.string(),
  versions: z.record(z.string(), z.string()),
  measured: z.array(
    z.object({
      repetitions: z.array(
        z.object({ draft: z.number(), read: z.number(), train: z.number(), optimise: z.number() }),
      ),
    }),
  ),
})
const theirsSchema = z.object({
  versions: z.record(z.string(), z.string()),
  chosen: z.object({ microBatch: z.number() }),
  whole: z.object({
    rows: z.array(
      z.object({
        draft: z.number(),
        read: z.number(),
        forwardBackward: z.number(),
        optimiser: z.number(),
        step: z.number(),
      }),
    ),
  }),
})

async function step(): Promise<string> {
  const ours = await readJsonFile(at('bench/results/cpu-small.json'), oursSchema)
  const theirs = await readJsonFile(at('bench/results/cpu-small-trl.json'), theirsSchema)
  const { repetitions } = ours.measured[0]
  const { rows } = theirs.whole
  const pairs: [string, number[], number[]][] = [
    ['draft', repetitions.map((r) => r.draft), rows.map((r) => r.draft)],
    ['read', repetitions.map((r) => r.read), rows.map((r) => r.read)],
    ['forward and backward', repetitions.map((r) => r.train), rows.map((r) => r.forwardBackward)],
    ['optimiser', repetitions.map((r) => r.optimise), rows.map((r) => r.optimiser)],
    [
      'step',
      repetitions.map(({ draft, read, train, optimise }) => draft + read + train + optimise),
      rows.map((r) => r.step),
    ],
  ]
  const lines = pairs.map(([what, mine, other]) => [
    what,
    median(mine).toFixed(3),
    median(other).toFixed(3),
    (median(other) / median(mine)).toFixed(1),
  ])
  const peer = ['trl', 'torch', 'transformers', 'peft'].map((name) => `${name} ${theirs.versions[name]}`)
  return (
    `Seconds, medians of ${repetitions.length} and ${rows.length}, one after the other; 2 cores of an ${ours.processor}; ` +
    `onnxruntime-node ${ours.versions['onnxruntime-node']}; ${peer.join(', ')}, micro-batches of ${theirs.chosen.microBatch}.\n\n` +
    table(['', 'this project', 'TRL', 'ratio'], lines)
  )
}

const studySchema = z.object({
  jobs: z.number(),
  secondsAlone: z.number(),
  secondsTogether: z.number(),
  share: z.number(),
  busyAlone: z.number(),
  busyTogether: z.number(),
  machineShare: z.number().optional(),
  processor: z.string(),
  cores: z.number(),
  node: z.string(),
  date: z.string(),
})

async function studies(): Promise<string> {
  const lines = (await readFile(at('bench/results/studies.jsonl'), 'utf8'))
    .split('\n')
    .filter(Boolean)
    .map((line) => studySchema.parse(JSON.parse(line)))
  const groups = new Map<string, typeof lines>()
  for (const line of lines) {
    const name = [line.jobs, line.processor, line.cores, line.node, line.date].join()
    groups.set(name, [...(groups.get(name) ?? []), line])
  }
  const rows = [...groups.values()].map((some) => {
    const { jobs, cores, processor, node, date } = some[0]
    const of = (value: (line: (typeof some)[number]) => number) => median(some.map(value))
    const share = of((line) => line.share)
    return [
      `${jobs}`,
      `${some.length}`,
      of((line) => line.secondsAlone).toFixed(1),
      of((line) => line.secondsTogether).toFixed(1),
      share.toFixed(2),
      some[0].machineShare === undefined ? '' : of((line) => line.machineShare ?? 0).toFixed(2),
      (jobs * share).toFixed(1),
      `${of((line) => line.busyAlone).toFixed(1)}, ${of((line) => line.busyTogether).toFixed(1)}`,
      `${cores} x ${processor}, Node ${node.slice(1)}, ${date}`,
    ]
  })
  return table(
    [
      'jobs at once',
      'times',
      'one alone, s',
      'all at once, s',
      'share',
      'share of loops that have nothing in common',
      'jobs in the time of one',
      'cores busy, alone and at once',
      'where',
    ],
    rows,
  )
}

const reportSchema = z.object({
  machine: z.object({ processor: z.string(), cores: z.number(), load: z.number() }),
  rollouts: z.object({
    heldOut: z.number(),
    jobs: z.number(),
    problems: z.number(),
    training: z.number(),
    runMiB: z.number(),
  }),
  written: z.object({ seconds: z.number(), peakMiB: z.number(), fileMiB: z.number() }),
  median: z.object({
    firstPaint: z.number(),
    table: z.number(),
    loaded: z.number(),
    slowestFilter: z.number(),
    slowestSearch: z.number(),
    openProblem: z.number(),
    heapMiB: z.number(),
    residentMiB: z.number(),
  }),
  openings: z.array(z.unknown()),
})

async function reports(): Promise<string> {
  const all = await Promise.all(
    ['report', 'report-2m-problems', 'report-2m'].map((name) =>
      readJsonFile(at(`bench/results/${name}.json`), reportSchema),
    ),
  )
  const rows: [string, (of: (typeof all)[number]) => string][] = [
    ['jobs', ({ rollouts }) => `${rollouts.jobs}`],
    ['held-out problems', ({ rollouts }) => rollouts.problems.toLocaleString('en')],
    ['the run on disk, MiB', ({ rollouts }) => rollouts.runMiB.toFixed(0)],
    ['the report, MiB', ({ written }) => written.fileMiB.toFixed(0)],
    ['to write it, s', ({ written }) => written.seconds.toFixed(1)],
    ['peak of memory in that, MiB', ({ written }) => written.peakMiB.toFixed(0)],
    ['opened from disk: first paint, s', ({ median }) => (median.firstPaint / 1000).toFixed(2)],
    ['the table is there, s', ({ median }) => (median.table / 1000).toFixed(2)],
    ['all is loaded, s', ({ median }) => (median.loaded / 1000).toFixed(2)],
    ['slowest filter, ms', ({ median }) => median.slowestFilter.toFixed(0)],
    ['slowest search, ms', ({ median }) => median.slowestSearch.toFixed(0)],
    ['a problem opens, ms', ({ median }) => median.openProblem.toFixed(0)],
    ["the page's heap, MiB", ({ median }) => median.heapMiB.toFixed(0)],
    ["its process's memory, MiB", ({ median }) => median.residentMiB.toFixed(0)],
  ]
  const [{ machine }] = all
  return (
    `${machine.cores} cores of an ${machine.processor}; medians of ${all.map(({ openings }) => openings.length).join(', ')} openings in Chromium.\n\n` +
    table(
      ['', ...all.map(({ rollouts }) => `${rollouts.heldOut.toLocaleString('en')} held-out replies`)],
      rows.map(([what, text]) => [what, ...all.map(text)]),
    )
  )
}

const phase = z.object({ draft: z.number(), read: z.number(), train: z.number(), optimise: z.number() })
/** What was measured in one sitting, as each program wrote it: this project's before the peers and after them. */
const sittingSchema = z.object({
  date: z.string(),
  hardware: z.string(),
  commit: z.string(),
  ours: z.array(
    z.object({ measured: z.array(z.object({ warmUp: phase, repetitions: z.array(phase) })).length(1) }),
  ),
  vllm: z.object({
    versions: z.object({ vllm: z.string() }),
    rows: z.array(z.object({ draft: z.number(), readWithPrefill: z.number() })),
  }),
  trl: z.object({
    versions: z.object({ trl: z.string() }),
    updates: z.array(z.object({ microBatch: z.number(), forwardBackward: z.number() })).length(1),
  }),
})

/** Seconds of a sitting, medians. */
async function sittingSeconds(name = 'sitting-h200') {
  const found = await readJsonFile(at(`bench/results/${name}.json`), sittingSchema)
  const runs = found.ours.flatMap(({ measured }) => measured[0].repetitions)
  const ours = (part: keyof z.infer<typeof phase>) => median(runs.map((times) => times[part]))
  const update = ours('train') + ours('optimise')
  const [trl] = found.trl.updates
  const peers = {
    draft: median(found.vllm.rows.map(({ draft }) => draft)),
    read: median(found.vllm.rows.map(({ readWithPrefill }) => readWithPrefill)),
    update: trl.forwardBackward,
  }
  return {
    ...found,
    steps: runs.length,
    mine: { draft: ours('draft'), read: ours('read'), update },
    step: median(runs.map(({ draft, read, train, optimise }) => draft + read + train + optimise)),
    peers,
    peersStep: peers.draft + peers.read + peers.update,
    microBatch: trl.microBatch,
    firstSteps: found.ours.map(({ measured: [{ warmUp }] }) =>
      Object.values(warmUp).reduce((sum, value) => sum + value, 0),
    ),
  }
}

const gpuSchema = z.object({
  parameters: z.number(),
  measured: z.array(
    z.object({
      problems: z.number(),
      copies: z.number(),
      questionTokens: z.number(),
      noteTokens: z.number(),
      replyTokens: z.number(),
      rank: z.number(),
    }),
  ),
})

async function sitting(): Promise<string> {
  const { hardware, date, commit, versions, ...found } = await sittingSeconds().then((all) => ({
    ...all,
    versions: { ...all.vllm.versions, ...all.trl.versions },
  }))
  const { mine, peers, step, peersStep, steps, microBatch, firstSteps } = found
  const { parameters, measured } = await readJsonFile(
    at('bench/results/gpu-cuda-qwen2.5-1.5b.json'),
    gpuSchema,
  )
  const pairs: [string, number, string, number][] = [
    ['draft', mine.draft, 'vLLM', peers.draft],
    ['read, its prompts included', mine.read, 'vLLM', peers.read],
    ['update', mine.update, 'TRL', peers.update],
    ['step', step, 'both', peersStep],
  ]
  const { asFirst, now } = floor(parameters, measured[0])
  const earlier = await sittingSeconds('sitting-h200-earlier')
  const alone = await readJsonFile(at('bench/results/step-cuda-h200.json'), sittingSchema.shape.ours.element)
  const aloneSteps = alone.measured[0].repetitions.map(
    ({ draft, read, train, optimise }) => draft + read + train + optimise,
  )
  return (
    `Seconds, medians (this project's of ${steps} steps); one ${hardware}, ${date}; this project at \`${commit}\`, vLLM ${versions.vllm}, ` +
    `TRL ${versions.trl}'s forward and backward in bfloat16 with sdpa, micro-batches of ${microBatch}.\n\n` +
    table(
      ['', 'this project', 'peer', 'its seconds', 'ratio'],
      pairs.map(([what, mine, peer, other]) => [
        what,
        mine.toFixed(2),
        peer,
        other.toFixed(2),
        (other / mine).toFixed(2),
      ]),
    ) +
    `\n\nThe machine of that sitting was a busy one, for all three programs. On another, alone, the same engine took ${median(aloneSteps).toFixed(2)} s ` +
    `a step (median of ${aloneSteps.length}). In an earlier sitting, at \`${earlier.commit}\`, it took ${earlier.step.toFixed(2)} s and the peers ` +
    `${earlier.peersStep.toFixed(2)} s: ${(earlier.peersStep / earlier.step).toFixed(2)} times as fast.` +
    `\n\nA program's first step, compiling and all, took ${firstSteps[0].toFixed(0)} s in the first process on a machine just started, ` +
    `${firstSteps[1].toFixed(0)} s in the next.\n\n` +
    `The hardware's floor for this step is reckoned, not measured: ${asFirst.step.toFixed(1)} s as first reckoned, ` +
    `${now.step.toFixed(1)} s by the operations that it cannot do without ([gpu.md](gpu.md#the-floor)).`
  )
}

const samplingSchema = z.object({
  model: z.string(),
  machine: z.object({ processor: z.string(), threads: z.number() }),
  date: z.string(),
  works: z.array(
    z.object({
      name: z.string(),
      prompts: z.number(),
      copies: z.number(),
      newTokens: z.number(),
      promptTokens: z.number(),
    }),
  ),
  versions: z.record(z.string(), z.string()),
  measured: z.array(
    z.object({ work: z.string(), weights: z.string(), rounds: z.array(z.object({ seconds: z.number() })) }),
  ),
})

async function sampling(): Promise<string> {
  const ours = await readJsonFile(at('bench/results/cpu-smollm2.json'), samplingSchema)
  const theirs = await readJsonFile(at('bench/results/cpu-smollm2-llama-cpp.json'), samplingSchema)
  const secondsOf = ({ rounds }: (typeof ours.measured)[number]) =>
    median(rounds.map(({ seconds }) => seconds))
  const rows = ours.works.flatMap(({ name, prompts, copies, newTokens, promptTokens }) => {
    const mine = ours.measured.filter(({ work }) => work === name)
    const best = Math.min(...mine.map(secondsOf))
    const row = (who: string, one: (typeof mine)[number]) => [
      `${name}: ${prompts} prompts of ${promptTokens}, ${copies} x ${newTokens} new`,
      who,
      one.weights,
      secondsOf(one).toFixed(1),
      `${Math.round((prompts * copies * newTokens) / secondsOf(one))}`,
      (secondsOf(one) / best).toFixed(2),
    ]
    return [
      ...mine.map((one) => row('this project', one)),
      ...theirs.measured.filter(({ work }) => work === name).map((one) => row('llama.cpp', one)),
    ]
  })
  const { machine, date, model, versions } = theirs
  return (
    `${model}; medians of ${ours.measured[0].rounds.length}, in turn; ${machine.threads} cores of an ${machine.processor}, ${date}; ` +
    `onnxruntime-node ${ours.versions['onnxruntime-node']}, llama_cpp_python ${versions.llama_cpp_python}.\n\n` +
    table(['work', '', 'weights', 'seconds', 'new tokens a second', "times this project's seconds"], rows)
  )
}

/** The README's lines: what is measured, beside what, and how many times as fast this project is. */
async function ratios(): Promise<string> {
  const small = await readJsonFile(at('bench/results/cpu-small.json'), oursSchema)
  const trl = await readJsonFile(at('bench/results/cpu-small-trl.json'), theirsSchema)
  const ours = await readJsonFile(at('bench/results/cpu-smollm2.json'), samplingSchema)
  const llama = await readJsonFile(at('bench/results/cpu-smollm2-llama-cpp.json'), samplingSchema)
  const sittings = [await sittingSeconds(), await sittingSeconds('sitting-h200-earlier')]
  const sampled = (found: typeof ours, weights: string) =>
    found.measured
      .filter((line) => line.weights === weights)
      .reduce((sum, { rounds }) => sum + median(rounds.map(({ seconds }) => seconds)), 0)
  const step = median(
    small.measured[0].repetitions.map(({ draft, read, train, optimise }) => draft + read + train + optimise),
  )
  const besideLlama = (weights: string) => (sampled(llama, weights) / sampled(ours, 'F32')).toFixed(1)
  return table(
    ['what', 'beside', 'times as fast'],
    [
      [
        'a step of the built-in policy, two cores',
        'TRL, PEFT, transformers',
        (median(trl.whole.rows.map((row) => row.step)) / step).toFixed(1),
      ],
      [
        'sampling from SmolLM2-135M, two cores, single precision',
        'llama.cpp in single precision; in halves',
        `${besideLlama('F32')}; ${besideLlama('BF16')}`,
      ],
      [
        "a step of Qwen2.5-1.5B's shape, one H200",
        'vLLM for sampling, TRL for the update',
        [...new Set(sittings.map(({ peersStep, step }) => (peersStep / step).toFixed(1)))]
          .sort()
          .join(' to '),
      ],
    ],
  )
}

await replaceSections(at('README.md'), { speed: await ratios() })
await replaceSections(at('docs/speed.md'), {
  sampling: await sampling(),
  'default run': await defaultRuns(),
  step: await step(),
  sitting: await sitting(),
  growth: await growth(at('bench/results')),
  rounds: await rounds(at('bench/results/credit-map.jsonl')),
  studies: await studies(),
  report: await reports(),
})
