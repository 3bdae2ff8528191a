/** Attention of packed rows in double precision, which every kernel of it is held to, and what it is given. */
import type { Heads } from '../packedAttention.ts'
import { fromHalf, toHalf } from './halves.ts'

/** A row's segments: a prompt of that length, completions, and padding up to the time. */
export function segmentsOf(time: number, prompt: number, ...completions: number[]): number[] {
  const segments = [prompt, ...completions].flatMap((length, segment) => Array<number>(length).fill(segment))
  return [...segments, ...Array<number>(time - segments.length).fill(-1)]
}

/** Numbers as halves hold them. */
export function halves(count: number, draw: () => number): { bits: Uint16Array; values: Float64Array } {
  const bits = Uint16Array.from({ length: count }, () => toHalf(draw()))
  return { bits, values: Float64Array.from(bits, fromHalf) }
}

export interface Packed {
  q: Float64Array
  k: Float64Array
  v: Float64Array
  gradient: Float64Array
}

/** Mixed, the logarithms to base 2 of rows' sums, and the gradients; a head and a row of positions after another. */
export function reference(
  { heads, kvHeads, headDim, rows }: Heads & { rows: readonly (readonly number[])[] },
  { q, k, v, gradient }: Packed,
) {
  const time = rows[0].length
  const [mixed, toQueries] = [new Float64Array(q.length), new Float64Array(q.length)]
  const [toKeys, toValues] = [new Float64Array(k.length), new Float64Array(k.length)]
  const sums = new Float64Array(rows.length * heads * time)
  rows.forEach((segments, row) => {
    for (let head = 0; head < heads; head++) {
      const kv = Math.floor((head * kvHeads) / heads)
      const at = (t: number) => ((row * time + t) * heads + head) * headDim
      const keyAt = (t: number) => ((row * time + t) * kvHeads + kv) * headDim
      const dot = (x: Float64Array, i: number, y: Float64Array, j: number) => {
        let sum = 0
        for (let d = 0; d < headDim; d++) sum += x[i + d] * y[j + d]
        return sum
      }
      const add = (to: Float64Array, i: number, of: Float64Array, j: number, factor: number) => {
        for (let d = 0; d < headDim; d++) to[i + d] += factor * of[j + d]
      }
      for (let t = 0; t < time; t++) {
        if (segments[t] < 0) continue
        const seen = [...segments.keys()].filter((s) => s <= t && [0, segments[t]].includes(segments[s]))
        const scores = seen.map((s) => dot(q, at(t), k, keyAt(s)) / Math.sqrt(headDim))
        const most = Math.max(...scores)
        const powers = scores.map((score) => Math.exp(score - most))
        const whole = powers.reduce((sum, power) => sum + power)
        sums[(row * heads + head) * time + t] = most * Math.LOG2E + Math.log2(whole)
        const shares = powers.map((power) => power / whole)
        seen.forEach((s, i) => {
          add(mixed, at(t), v, keyAt(s), shares[i])
        })
        const taken = dot(mixed, at(t), gradient, at(t))
        seen.forEach((s, i) => {
          const change = (shares[i] * (dot(gradient, at(t), v, keyAt(s)) - taken)) / Math.sqrt(headDim)
          add(toValues, keyAt(s), gradient, at(t), shares[i])
          add(toQueries, at(t), k, keyAt(s), change)
          add(toKeys, keyAt(s), q, at(t), change)
        })
      }
    }
  })
  return { mixed, sums, toQueries, toKeys, toValues }
}
