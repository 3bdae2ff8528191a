/**
 * The least that the full-size step could take on an H200, for docs/gpu.md and docs/speed.md: reckoned from what the
 * hardware can do, never measured.
 */
import { operations, type Sizes, shapes, trainedTokens } from '../bench/gpu-step.ts'

/** Nine tenths of its data sheet's 4.8 TB/s, and four fifths of its 989 TFLOPS in halves. */
const h200 = { bytes: 4.3e12, operations: 790e12 }

/**
 * As it was reckoned before any of it ran: 4 operations a parameter for each token trained, of which there were taken to
 * be more, and prompts as good as guessed.
 */
const first = { shape: 'qwen2.5-1.5b', prompts: 0.2, trainedTokens: 57_000 }

/** Seconds of reading the weights, in halves, once for each token that copies sample side by side; of prompts; of training. */
export function floor(parameters: number, size: Sizes) {
  const config = shapes[first.shape]
  const decode = ((size.noteTokens + size.replyTokens) * 2 * parameters) / h200.bytes
  const prompts =
    operations(config, { ...size, noteTokens: 0 }).draft +
    operations(config, { ...size, replyTokens: 0 }).read
  const asFirst = {
    decode,
    prompts: first.prompts,
    train: (4 * parameters * first.trainedTokens) / h200.operations,
  }
  const now = {
    decode,
    prompts: prompts / h200.operations,
    train: operations(config, size).train / h200.operations,
  }
  const step = (of: typeof now) => of.decode + of.prompts + of.train
  return { asFirst: { ...asFirst, step: step(asFirst) }, now: { ...now, step: step(now) } }
}

/** How the floor is reckoned, and how much of its speed a step of these seconds reaches. */
export function floorText(parameters: number, size: Sizes, seconds: number): string {
  const { asFirst, now } = floor(parameters, size)
  const tokens = size.noteTokens + size.replyTokens
  const [bytes, operations] = [h200.bytes / 1e12, h200.operations / 1e12]
  const share = (least: number) => `${Math.round((100 * least) / seconds)}%`
  return (
    `What the hardware would allow is reckoned, not measured. Before any of it ran: ${((2 * parameters) / 1e9).toFixed(1)} GB of weights read ` +
    `for each of ${tokens} tokens at ${bytes} TB/s, ${asFirst.decode.toFixed(2)} s; prompts ${asFirst.prompts} s; ` +
    `${first.trainedTokens.toLocaleString('en')} tokens trained at 4 operations a parameter and ${operations} TFLOPS, ${asFirst.train.toFixed(2)} s: ` +
    `${asFirst.step.toFixed(1)} s a step. CUDA's step reaches ${share(asFirst.step)} of that speed. By the operations that a step cannot do without, where a board's prompt ` +
    `is computed once for all its copies and ${trainedTokens(size).toLocaleString('en')} tokens are trained (\`bench/gpu-step.ts\`), it is ` +
    `${now.step.toFixed(1)} s (prompts ${now.prompts.toFixed(2)} s, training ${now.train.toFixed(2)} s), of which it reaches ${share(now.step)}.`
  )
}
