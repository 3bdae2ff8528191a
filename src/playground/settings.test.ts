import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type ArmSettings,
  deviceNames,
  firstSettings,
  parseLink,
  ruleNames,
  type Settings,
  settingsLink,
  worldNames,
} from './settings.ts'

const arms: fc.Arbitrary<ArmSettings> = fc.record({
  reads: fc.array(fc.subarray([0, 1, 2, 3]), { minLength: 4, maxLength: 4 }),
  rounds: fc.integer({ min: 2, max: 4 }),
  credit: fc.constantFrom(...ruleNames),
})
const text = (maxLength: number) =>
  fc.string({ minLength: 1, maxLength, unit: 'grapheme' }).filter((s) => s.length <= maxLength)
const all: fc.Arbitrary<Settings> = fc.record({
  world: fc.constantFrom(...worldNames),
  steps: fc.integer({ min: 1, max: 400 }),
  holdout: fc.integer({ min: 8, max: 480 }),
  seeds: fc.uniqueArray(fc.integer({ min: 0, max: 0xffff_ffff }), { minLength: 1, maxLength: 32 }),
  arms: fc.record({ baseline: arms, recipe: arms }),
  device: fc.constantFrom(...deviceNames),
  problem: fc.oneof(
    fc.record({ world: fc.constantFrom(...worldNames), index: fc.integer({ min: 0, max: 119 }) }),
    fc.record({ question: text(600), gold: text(60), parts: fc.array(text(160), { maxLength: 4 }) }),
  ),
})

describe('a link', () => {
  it('restores all settings', () => {
    fc.assert(
      fc.property(all, (settings) => {
        expect(parseLink(`#${settingsLink(settings)}`)).toEqual(settings)
      }),
    )
  })

  it('is short and can be read where nothing is drawn', () => {
    expect(settingsLink(firstSettings)).toBe(
      'world=clues&steps=40&holdout=120&seeds=17+18&baseline=shared%7E2%7EreadersOnly&recipe=shared%7E2%7Eteam&problem=clues+0',
    )
  })

  it('is nothing where any of it cannot be', () => {
    const link = settingsLink(firstSettings)
    const changed = (field: string, value: string) => {
      const fields = new URLSearchParams(link)
      fields.set(field, value)
      return fields.toString()
    }
    expect(parseLink(link)).not.toBeNull()
    for (const bad of [
      '',
      '#section',
      changed('world', 'math'),
      changed('steps', '0'),
      changed('steps', '1e9'),
      changed('steps', '40.5'),
      changed('holdout', '99999'),
      changed('seeds', '17 17'),
      changed('seeds', ''),
      changed('recipe', 'shared~2~theft'),
      changed('recipe', 'shared~9~team'),
      changed('recipe', '12345.1.1.1~2~team'),
      changed('device', 'cuda'),
      changed('problem', 'clues 120'),
      changed('question', 'x'.repeat(601)),
    ]) {
      expect(parseLink(bad), bad).toBeNull()
    }
  })

  it('of any text never throws', () => {
    fc.assert(fc.property(fc.string(), (fragment) => void parseLink(fragment)))
  })
})
