/**
 * The one error class meant for users: its message says what happened, with which value, and the one thing to do.
 * The command line prints it as one line and exits with 2; anything else that is thrown is a defect of ours.
 */
export class UserError extends Error {
  override name = 'UserError'
}

/** What computed is gone, and others may be there: what was in hand can go on elsewhere from what was kept of it. */
export class LostError extends UserError {}
