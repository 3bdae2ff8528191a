/**
 * Lays sequences out as rows of a batch. Sequences with the same prompt share one row, [prompt | completion 1 |
 * completion 2 ...]: each completion sees the prompt and itself, so the prompt is computed once for all of them, and
 * the result is the same as one by one. Rows of like length are batched together under a token budget, so memory is
 * bounded whatever the number of sequences.
 */
import type { Sequence } from '../contract.ts'

/** Sequences in one row of a batch: what they share, and which they are. */
export interface Row {
  prompt: readonly number[]
  /** Indices of the sequences whose completions stand in this row. */
  members: number[]
  /** Tokens fed: the prompt, and each completion but for its last token, which predicts nothing. */
  length: number
}

export interface PackOptions {
  /** At most about this much in a batch, unless a single row costs more: tokens, or in the unit of `rowCost`. */
  tokenBudget: number
  /** What a row of that many tokens costs; its length unless told. */
  rowCost?: (length: number) => number
  /** Completions are not added to a row beyond this length: attention's cost grows with its square. */
  rowLimit: number
  /** The number of batches is a multiple of this, so that as many lanes end together. */
  lanes: number
}

/** Groups sequences into rows and rows into batches of about equal size, the longest rows first. */
export function planBatches(sequences: readonly Sequence[], options: PackOptions): Row[][] {
  const rows = groupByPrompt(sequences, options.rowLimit)
  rows.sort((a, b) => b.length - a.length || a.members[0] - b.members[0])
  const cost = ({ length }: Row) => options.rowCost?.(length) ?? length
  const total = rows.reduce((sum, row) => sum + cost(row), 0)
  const count = options.lanes * Math.ceil(total / (options.tokenBudget * options.lanes))
  const batches: Row[][] = Array.from({ length: count }, () => [])
  let before = 0
  for (const row of rows) {
    batches[Math.floor((before * count) / total)].push(row)
    before += cost(row)
  }
  return batches.filter((batch) => batch.length > 0)
}

function groupByPrompt(sequences: readonly Sequence[], rowLimit: number): Row[] {
  const rows: Row[] = []
  const open = new Map<string, Row>()
  sequences.forEach(({ prompt, completion }, index) => {
    if (completion.length === 0) return
    const key = prompt.join(' ')
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

export interface PackedBatch {
  batch: number
  time: number
  /** [batch * time] token ids, 0 where padded. */
  tokens: Int32Array
  /** [batch * time] positions: a completion's go on from the prompt's end. */
  positions: Int32Array
  /** [batch * time] what a position belongs to: 0 the prompt, 1 and on the row's completions, -1 padding. */
  segments: Int32Array
  /** For each completion token, the flattened position that predicts it; 0 where padded. */
  rows: Int32Array
  /** For each completion token, its id; 0 where padded. */
  targets: Int32Array
  /** Where each sequence's completion tokens stand in `rows`: its index, their start and count. */
  spans: { index: number; start: number; count: number }[]
}

/** Lays one batch out. `completions` are all sequences' completions, by index; `lengthen` pads time and targets. */
export function packRows(
  rows: readonly Row[],
  completions: readonly (readonly number[])[],
  lengthen: (size: number) => number = (size) => size,
): PackedBatch {
  const batch = rows.length
  const time = lengthen(Math.max(...rows.map((row) => row.length)))
  const count = lengthen(
    rows.reduce((sum, row) => sum + row.members.reduce((n, index) => n + completions[index].length, 0), 0),
  )
  const packed: PackedBatch = {
    batch,
    time,
    tokens: new Int32Array(batch * time),
    positions: new Int32Array(batch * time),
    segments: new Int32Array(batch * time).fill(-1),
    rows: new Int32Array(count),
    targets: new Int32Array(count),
    spans: [],
  }
  const { tokens, positions, segments } = packed
  let target = 0
  rows.forEach((row, r) => {
    const base = r * time
    const promptLength = row.prompt.length
    row.prompt.forEach((token, i) => {
      tokens[base + i] = token
      positions[base + i] = i
      segments[base + i] = 0
    })
    let at = promptLength
    row.members.forEach((index, member) => {
      const completion = completions[index]
      packed.spans.push({ index, start: target, count: completion.length })
      completion.forEach((token, i) => {
        packed.rows[target] = base + (i === 0 ? promptLength - 1 : at - 1)
        packed.targets[target] = token
        target++
        if (i === completion.length - 1) return
        tokens[base + at] = token
        positions[base + at] = promptLength + i
        segments[base + at] = member + 1
        at++
      })
    })
  })
  return packed
}
