/**
 * The one error class meant for users: its message says what happened, with which value, and the one thing to do.
 * The command line prints it as one line and exits with 2; anything else that is thrown is a defect of ours.
 */
export class UserError extends Error {
  override name = 'UserError'

  constructor(message: string, options?: ErrorOptions) {
    super(short(message), options)
  }
}

/** Longest message: a value that a file or a server gave may be of any length. */
const LONGEST = 1000

/** A message without its middle where it is long: the beginning says what happened, the end what to do. */
function short(message: string): string {
  if (message.length <= LONGEST) return message
  return `${message.slice(0, LONGEST / 2)} [...] ${message.slice(-LONGEST / 4)}`
}

/** What computed is gone, and others may be there: what was in hand can go on elsewhere from what was kept of it. */
export class LostError extends UserError {}
