import { expect, test } from 'vitest'
import { LostError, UserError } from './errors.ts'

test('a message is as it was written, but for the middle of a very long one', () => {
  const said = `The tensor '${'x'.repeat(1e6)}' is not known. Use another file.`
  const { message } = new UserError(said)
  expect(message.length).toBeLessThan(1000)
  expect(message).toMatch(/^The tensor 'xxx.* \[\.\.\.\] .*xxx' is not known\. Use another file\.$/)
  expect(new LostError('The server is gone.', { cause: 7 })).toMatchObject({
    message: 'The server is gone.',
    cause: 7,
  })
})
