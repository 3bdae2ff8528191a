import { expect, test } from 'vitest'
import { mathGrader } from './grader.ts'

test.each([
  ['So it is \\boxed{42}.', '42', '42', true],
  ['#### 1,234', '1234', '1,234', true],
  ['She has 3 + 4 = 7 apples and then', '7', null, false],
])('%j against %j', (reply, gold, answer, correct) => {
  if (answer === null) expect(mathGrader.grade(reply, gold).correct).toBe(correct)
  else expect(mathGrader.grade(reply, gold)).toEqual({ answer, correct })
})
