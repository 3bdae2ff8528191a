import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { ARM_COLOURS, colourOf, dashOf } from './colours.ts'

const css = readFileSync(new URL('style.css', import.meta.url), 'utf8')

type Vector = number[]

/** A custom property's two values in linear light, light scheme first. */
function schemes(name: string): [light: Vector, dark: Vector] {
  const found = new RegExp(`${name}: light-dark\\((#[0-9a-f]{6}), (#[0-9a-f]{6})\\)`).exec(css)
  if (!found) throw new Error(`${name} is not in style.css`)
  const [light, dark] = found.slice(1).map((hex) =>
    [1, 3, 5].map((at) => {
      const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
    }),
  )
  return [light, dark]
}

const times = (matrix: Vector[], vector: Vector) =>
  matrix.map((row) => row.reduce((sum, value, i) => sum + value * vector[i], 0))

/** What people see who lack a cone: Machado, Oliveira and Fernandes 2009, severity 1. */
const sights: Record<string, Vector[]> = {
  normal: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  'red-blind': [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  'green-blind': [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  'blue-blind': [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
}

/** Oklab (Ottosson 2020), in which distances are as they are seen. */
function oklab(linear: Vector): Vector {
  const cones = times(
    [
      [0.4122214708, 0.5363325363, 0.0514459929],
      [0.2119034982, 0.6806995451, 0.1073969566],
      [0.0883024619, 0.2817188376, 0.6299787005],
    ],
    linear.map((value) => Math.min(1, Math.max(0, value))),
  ).map(Math.cbrt)
  return times(
    [
      [0.2104542553, 0.793617785, -0.0040720468],
      [1.9779984951, -2.428592205, 0.4505937099],
      [0.0259040371, 0.7827717662, -0.808675766],
    ],
    cones,
  )
}

const luminance = ([r, g, b]: Vector) => 0.2126 * r + 0.7152 * g + 0.0722 * b
/** As WCAG 2 defines it. */
function contrast(a: Vector, b: Vector): number {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x)
  return (high + 0.05) / (low + 0.05)
}

describe.each([
  ['light', 0],
  ['dark', 1],
] as const)('the colours of arms, %s', (_, scheme) => {
  const arms = Array.from({ length: ARM_COLOURS }, (_, i) => schemes(`--arm-${i}`)[scheme])
  const all = [...arms, schemes('--base')[scheme]]

  it('stand out from the card as WCAG asks of graphics', () => {
    const card = schemes('--card')[scheme]
    for (const colour of all) expect(contrast(colour, card)).toBeGreaterThanOrEqual(3)
  })

  it.each(Object.entries(sights))('are told apart by %s eyes', (_, matrix) => {
    const seen = all.map((colour) => oklab(times(matrix, colour)))
    for (const [i, a] of seen.entries()) {
      for (const b of seen.slice(0, i)) {
        expect(Math.hypot(...a.map((value, k) => value - b[k]))).toBeGreaterThan(0.08)
      }
    }
  })
})

it('arms have colours of their own, and the later ones broken lines', () => {
  const arms = Array.from({ length: ARM_COLOURS }, (_, arm) => ({ arm }))
  expect(new Set(arms.map(colourOf)).size).toBe(ARM_COLOURS)
  expect(arms.map(dashOf).filter((dash) => dash === undefined)).toHaveLength(4)
  expect(colourOf({ arm: null })).toBe('var(--base)')
})
