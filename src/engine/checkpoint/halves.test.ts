import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { bf16ToF32, f16ToF32, f32ToBf16, f32ToF16 } from './halves.ts'

/** From numpy and PyTorch: float32 bits, ties and neighbours of ties among them, and their roundings' bits. */
const golden: { f32: number[]; bf16: number[]; f16: number[]; everyF16Sha256: string } = JSON.parse(
  readFileSync(join(import.meta.dirname, 'fixtures', 'halves.json'), 'utf8'),
)
const values = new Float32Array(Uint32Array.from(golden.f32).buffer)

test('float32 rounds to bfloat16 and float16 as in PyTorch, bit for bit', () => {
  const bf16 = new Uint16Array(values.length)
  const f16 = new Uint16Array(values.length)
  f32ToBf16(values, bf16)
  f32ToF16(values, f16)
  expect([...bf16]).toEqual(golden.bf16)
  expect([...f16]).toEqual(golden.f16)
})

test('every float16 widens exactly, and narrows back to itself', () => {
  const every = Uint16Array.from({ length: 0x10000 }, (_, bits) => bits).filter(
    (bits) => !((bits & 0x7c00) === 0x7c00 && bits & 0x3ff),
  )
  const wide = new Float32Array(every.length)
  f16ToF32(every, wide)
  expect(createHash('sha256').update(new Uint8Array(wide.buffer)).digest('hex')).toBe(golden.everyF16Sha256)
  const back = new Uint16Array(every.length)
  expect(f32ToF16(wide, back)).toBe(true)
  expect(back).toEqual(every)
})

test('every bfloat16 that is a number narrows back to itself', () => {
  const every = Uint16Array.from({ length: 0x10000 }, (_, bits) => bits).filter(
    (bits) => !((bits & 0x7f80) === 0x7f80 && bits & 0x7f),
  )
  const wide = new Float32Array(every.length)
  bf16ToF32(every, wide)
  const back = new Uint16Array(every.length)
  expect(f32ToBf16(wide, back)).toBe(true)
  expect(back).toEqual(every)
})

test('a NaN stays a NaN, whatever its payload', () => {
  const nans = new Float32Array(Uint32Array.of(0x7f800001, 0xffc00000, 0x7fffffff, 0xff80ffff).buffer)
  const wide = new Float32Array(4)
  for (const [narrow, widen] of [
    [f32ToBf16, bf16ToF32],
    [f32ToF16, f16ToF32],
  ] as const) {
    const half = new Uint16Array(4)
    narrow(nans, half)
    widen(half, wide)
    expect([...wide]).toEqual([Number.NaN, Number.NaN, Number.NaN, Number.NaN])
  }
})

test('says when a finite value became infinite, and not when it was infinite before', () => {
  const out = new Uint16Array(1)
  expect(f32ToF16(Float32Array.of(65520), out)).toBe(false)
  expect(f32ToF16(Float32Array.of(65519.99), out)).toBe(true)
  expect(f32ToF16(Float32Array.of(Number.NEGATIVE_INFINITY), out)).toBe(true)
  expect(f32ToBf16(Float32Array.of(-3.4e38), out)).toBe(false)
  expect(f32ToBf16(Float32Array.of(3.3e38), out)).toBe(true)
})
