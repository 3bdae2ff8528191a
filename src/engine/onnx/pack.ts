/**
 * Lays sequences out as rows of a batch. Sequences with the same prompt share one row, [prompt | completion 1 |
 * completion 2 ...]: each completion sees the prompt and itself, so the prompt is computed once for all of them, and
 * the result is the same as one by one. Rows of like length are batched together under a token budget, so memory is
 * bounded whatever the number of sequences.
 */
import type { Sequence } from '../contract.ts'

export interface PackedBatch {
  batch: number
  time: number
  /** [batch * time] token ids, 0 where padded. */
  tokens: Int32Array
  /** [batch * time] positions: a completion's go on from the prompt's end. */
  positions: Int32Array
  /** [batch * time * time] 0 where a position may look, MASKED where not. */
  mask: Float32Array
  /** For each completion token, the flattened position that predicts it. */
  rows: Int32Array
  /** For each completion token, its id. */
  targets: Int32Array
  /** Where each sequence's completion tokens stand in `rows`: its index, their start and count. */
  spans: { index: number; start: number; count: number }[]
}

export interface PackOptions {
  /** At most this many tokens, padding included, in a batch, unless a single row is longer. */
  tokenBudget: number
  /** Completions are not added to a row beyond this length: attention's cost grows with its square. */
  rowLimit: number
}

const MASKED = -1e9

interface Row {
  prompt: readonly number[]
  /** Indices of the sequences whose completions stand in this row. */
  members: number[]
  length: number
}

export function pack(sequences: readonly Sequence[], options: PackOptions): PackedBatch[] {
  const rows = groupByPrompt(sequences, options.rowLimit)
  // Longest first: batches have like lengths, and the largest is met first.
  rows.sort((a, b) => b.length - a.length || a.members[0] - b.members[0])
  const batches: PackedBatch[] = []
  for (let start = 0; start < rows.length; ) {
    const fit = Math.max(1, Math.floor(options.tokenBudget / rows[start].length))
    batches.push(layOut(rows.slice(start, start + fit), sequences))
    start += fit
  }
  return batches
}

function groupByPrompt(sequences: readonly Sequence[], rowLimit: number): Row[] {
  const rows: Row[] = []
  const open = new Map<string, Row>()
  sequences.forEach(({ prompt, completion }, index) => {
    if (completion.length === 0) return
    const key = prompt.join(' ')
    // A completion's last token predicts nothing, so it is not fed.
    const extra = completion.length - 1
    const row = open.get(key)
    if (row !== undefined && row.length + extra <= rowLimit) {
      row.members.push(index)
      row.length += extra
      return
    }
    const fresh = { prompt, members: [index], length: prompt.length + extra }
    open.set(key, fresh)
    rows.push(fresh)
  })
  return rows
}

function layOut(rows: readonly Row[], sequences: readonly Sequence[]): PackedBatch {
  const batch = rows.length
  const time = Math.max(...rows.map((row) => row.length))
  const count = rows.reduce(
    (sum, row) => sum + row.members.reduce((n, index) => n + sequences[index].completion.length, 0),
    0,
  )
  const packed: PackedBatch = {
    batch,
    time,
    tokens: new Int32Array(batch * time),
    positions: new Int32Array(batch * time),
    mask: new Float32Array(batch * time * time).fill(MASKED),
    rows: new Int32Array(count),
    targets: new Int32Array(count),
    spans: [],
  }
  const { tokens, positions, mask } = packed
  let target = 0
  rows.forEach((row, r) => {
    const base = r * time
    const promptLength = row.prompt.length
    /** Lets position `at` look at the prompt and at [from, at]. */
    const see = (at: number, from: number) => {
      const line = (base + at) * time
      mask.fill(0, line, line + Math.min(promptLength, at + 1))
      mask.fill(0, line + from, line + at + 1)
    }
    row.prompt.forEach((token, i) => {
      tokens[base + i] = token
      positions[base + i] = i
      see(i, 0)
    })
    let at = promptLength
    for (const index of row.members) {
      const { completion } = sequences[index]
      const from = at
      packed.spans.push({ index, start: target, count: completion.length })
      completion.forEach((token, i) => {
        packed.rows[target] = base + (i === 0 ? promptLength - 1 : at - 1)
        packed.targets[target] = token
        target++
        if (i === completion.length - 1) return
        tokens[base + at] = token
        positions[base + at] = promptLength + i
        see(at, from)
        at++
      })
    }
    // Padding looks at itself alone, so that its softmax is finite; nothing reads it.
    for (; at < time; at++) mask[(base + at) * time + at] = 0
  })
  return packed
}
