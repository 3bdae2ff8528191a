/** Ctrl-C and polite kills as an abort signal, so that a command ends in order. Touches the process's signals only. */

/** Ends a command that a signal stopped: its exit code is the shell's for that signal. */
export class Interrupted extends Error {
  override name = 'Interrupted'
  readonly exitCode: number
  constructor(message: string, exitCode: number) {
    super(message)
    this.exitCode = exitCode
  }
}

/** A signal that is aborted by Ctrl-C and by a polite kill, saying `message`, and what stops listening to these. */
export function stopOnSignals(message: string): { signal: AbortSignal; ignore: () => void } {
  const controller = new AbortController()
  const codes = { SIGINT: 130, SIGTERM: 143 } as const
  const stop = (signal: keyof typeof codes) => {
    ignore()
    controller.abort(new Interrupted(message, codes[signal]))
  }
  const ignore = () => {
    process.removeListener('SIGINT', stop)
    process.removeListener('SIGTERM', stop)
  }
  process.on('SIGINT', stop)
  process.on('SIGTERM', stop)
  return { signal: controller.signal, ignore }
}
