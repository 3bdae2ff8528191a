import { expect, it } from 'vitest'
import { kernelsHere } from './device.ts'

it('says whether our own kernels run, and what is missing where they do not', () => {
  expect(kernelsHere(() => ({}))).toBe('with kernels of our own')
  const lacking = () => {
    throw new Error("CUDA's compiler was not found: none of libnvrtc.so.13 loads")
  }
  expect(kernelsHere(lacking)).toMatch(
    /^without kernels of our own, so slower: CUDA's compiler was not found: .*libnvrtc.*\(docs\/gpu\.md/,
  )
})
