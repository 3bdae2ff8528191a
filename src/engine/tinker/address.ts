/** Addresses of Tinker API servers, which runs name in their folders. Pure. */
import { plainAddress } from '../../address.ts'

/** @throws UserError for what is no address, or holds what may be secret. */
export const tinkerAddress = (text: string): string =>
  plainAddress(text, { example: '--url one such as http://localhost:8000', key: 'TINKER_API_KEY' })
