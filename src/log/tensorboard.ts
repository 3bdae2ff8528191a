/**
 * Training metrics as TensorBoard event files, one folder for each job: `tensorboard --logdir RUN/tensorboard` shows
 * a run while it goes on. Reads a job's metrics.jsonl and writes event files only.
 *
 * An event file is a TFRecord file (length, masked CRC-32C, data, masked CRC-32C) of `tensorflow.Event` messages. No
 * maintained library writes them from Node; the messages go through protobufjs. The file is a pure function of the
 * job's metrics and of the time in its name, so an interrupted run that goes on has no step twice and none missing.
 */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import protobuf from 'protobufjs/light.js'
import { appendAt, isRealFolder, makeFolder, writeFileAtomic } from '../files.ts'
import { logFolder } from '../record/folder.ts'
import { parseLine, readAdded, readProgress } from '../record/job-log.ts'
import { logStart } from '../record/lines.ts'
import { type MetricsLine, metricsSchema } from '../record/schema.ts'

/** The part of tensorflow/core/util/event.proto and framework/summary.proto that scalars need. */
const root = protobuf.Root.fromJSON({
  nested: {
    Event: {
      oneofs: { what: { oneof: ['fileVersion', 'summary'] } },
      fields: {
        wallTime: { type: 'double', id: 1 },
        step: { type: 'int64', id: 2 },
        fileVersion: { type: 'string', id: 3 },
        summary: { type: 'Summary', id: 5 },
      },
    },
    Summary: { fields: { value: { rule: 'repeated', type: 'Value', id: 1 } } },
    Value: {
      oneofs: { value: { oneof: ['simpleValue'] } },
      fields: { tag: { type: 'string', id: 1 }, simpleValue: { type: 'float', id: 2 } },
    },
  },
})
const eventType = root.lookupType('Event')

export interface ScalarEvent {
  /** Seconds since 1970. */
  wallTime: number
  step: number
  scalars: Record<string, number>
}

/** The first record of every event file. */
export const fileHeader = (wallTime: number): Uint8Array =>
  record(eventType.encode({ wallTime, fileVersion: 'brain.Event:2' }).finish())

export function scalarRecord({ wallTime, step, scalars }: ScalarEvent): Uint8Array {
  const value = Object.entries(scalars).map(([tag, simpleValue]) => ({ tag, simpleValue }))
  return record(eventType.encode({ wallTime, step, summary: { value } }).finish())
}

/** Little-endian: length in 8 bytes, its checksum in 4, the data, its checksum in 4. */
function record(data: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(16 + data.length)
  const view = new DataView(bytes.buffer)
  view.setBigUint64(0, BigInt(data.length), true)
  view.setUint32(8, maskedCrc(bytes.subarray(0, 8)), true)
  bytes.set(data, 12)
  view.setUint32(12 + data.length, maskedCrc(data), true)
  return bytes
}

/** CRC-32C (Castagnoli), rotated and shifted as TFRecord files have it. */
function maskedCrc(data: Uint8Array): number {
  let crc = 0xffff_ffff
  for (const byte of data) crc = crcTable[(crc ^ byte) & 0xff] ^ (crc >>> 8)
  const value = ~crc >>> 0
  return (((value >>> 15) | (value << 17)) + 0xa282_ead8) >>> 0
}

const crcTable = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f6_3b78 : crc >>> 1
  return crc >>> 0
})

/**
 * One step's metrics as scalars, grouped as TensorBoard groups tags: by what stands before the slash. What a step has no
 * value of has no scalar.
 */
export function stepScalars(metrics: MetricsLine): Record<string, number> {
  const {
    reward,
    informative,
    noteAcc,
    loss,
    gradNorm,
    learningRate,
    clippedShare,
    logprobDrift,
    entropy,
    kl,
  } = metrics
  const { replyChars, repliesCut, sampledTokens, scoredTokens, trainedTokens, effective, rounds, seconds } =
    metrics
  const byRound = rounds.map(({ right, chars, cut, credit }, r) => ({
    [`round_${r + 1}/right`]: right,
    [`round_${r + 1}/chars`]: chars,
    [`round_${r + 1}/cut`]: cut,
    [`round_${r + 1}/credit_mean`]: credit?.mean,
    [`round_${r + 1}/credit_spread`]: credit?.spread,
    [`round_${r + 1}/credit_informative`]: credit?.informative,
    [`round_${r + 1}/credit_with_own`]: credit?.withOwn,
    [`seconds/round_${r + 1}`]: seconds.rounds[r],
  }))
  const scalars: Record<string, number | null | undefined> = {
    'train/reward': reward,
    'train/informative': informative,
    'train/note_acc': noteAcc,
    'train/reply_chars': replyChars,
    'train/replies_cut': repliesCut,
    'train/credit_effective': effective,
    'optim/loss': loss,
    'optim/grad_norm': gradNorm,
    'optim/learning_rate': learningRate,
    'optim/clipped_share': clippedShare,
    'optim/logprob_drift': logprobDrift,
    'train/entropy': entropy,
    'train/kl': kl,
    'tokens/sampled': sampledTokens,
    'tokens/scored': scoredTokens,
    'tokens/trained': trainedTokens,
    'seconds/credit': seconds.credit,
    'seconds/forwardBackward': seconds.forwardBackward,
    'seconds/optimStep': seconds.optimStep,
    ...Object.assign({}, ...byRound),
  }
  return Object.fromEntries(
    Object.entries(scalars).filter(([, value]) => typeof value === 'number'),
  ) as Record<string, number>
}

const FILE = /^events\.out\.tfevents\.(\d+)\.message-board$/

/**
 * A listener of training steps that keeps the event files of the run in `folder`. The first step of a job writes its
 * file anew from metrics.jsonl, and each later one adds to it.
 */
export function tensorboardLog(folder: string): (job: string, metrics: MetricsLine) => Promise<void> {
  const files = new Map<string, EventFile>()
  return async (job, metrics) => {
    const file = files.get(job)
    if (file) {
      file.at += busy(metrics)
      const bytes = scalarRecord({ wallTime: file.at, step: metrics.step, scalars: stepScalars(metrics) })
      file.length = await appendAt(file.path, file.length, bytes)
    } else {
      files.set(job, await writeWhole(folder, job, metrics.step))
    }
  }
}

/** What a job's file has: where it is, its bytes, and the wall-clock time of its last step. */
interface EventFile {
  path: string
  length: number
  at: number
}

/** Writes a job's file with all steps up to `last`. */
async function writeWhole(folder: string, job: string, last: number): Promise<EventFile> {
  const steps = (await stepsOf(join(folder, job))).filter(({ step }) => step <= last)
  const place = join(folder, logFolder, job)
  // Both may be links that lead elsewhere, in a folder that was received.
  for (const path of [join(folder, logFolder), place]) await isRealFolder(path)
  await makeFolder(place)
  const earlier = (await readdir(place)).flatMap((name) => FILE.exec(name)?.[1] ?? [])
  const all = steps.reduce((sum, step) => sum + busy(step), 0)
  const start = earlier.length > 0 ? Number(earlier[0]) : Math.floor(Date.now() / 1000 - all)
  const path = join(place, `events.out.tfevents.${start}.message-board`)
  const records = [fileHeader(start)]
  let at = start
  for (const metrics of steps) {
    at += busy(metrics)
    records.push(scalarRecord({ wallTime: at, step: metrics.step, scalars: stepScalars(metrics) }))
  }
  const bytes = Buffer.concat(records)
  await writeFileAtomic(path, bytes)
  return { path, length: bytes.length, at }
}

/** The steps of a job so far. */
async function stepsOf(job: string): Promise<MetricsLine[]> {
  const steps: MetricsLine[] = []
  const progress = await readProgress(job)
  if (progress) {
    await readAdded(job, 'metrics', logStart(), progress, (line) =>
      steps.push(parseLine(line, metricsSchema)),
    )
  }
  return steps
}

const busy = ({ seconds: { rounds, credit, forwardBackward, optimStep } }: MetricsLine): number =>
  rounds.reduce((sum, value) => sum + value, 0) + credit + forwardBackward + optimStep
