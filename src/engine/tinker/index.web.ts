/** In a browser there is no client of the Tinker API: its servers answer to no page. */
import { UserError } from '../../errors.ts'

export async function openTinkerEngine(): Promise<never> {
  throw new UserError('The engine tinker is not to be had in a browser: leave engine out, or run it in Node.')
}
