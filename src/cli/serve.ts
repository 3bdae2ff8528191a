/** `message-board serve`: the dashboard of a folder of runs, until it is stopped. */
import { UserError } from '../errors.ts'
import { type Dashboard, serve } from '../serve/server.ts'
import { tell } from './terminal.ts'

export interface ServeFlags {
  host?: string
  port?: number
}

/** Where the dashboard is unless told: always the same, so that an open page finds it again after a restart. */
const PORT = 8642

/** Serves until Ctrl-C. */
export async function serveCommand(folder: string, flags: ServeFlags): Promise<void> {
  const dashboard = await start(folder, flags)
  tell(`${folder} is at ${dashboard.url}\nCtrl-C ends it.\n`)
  await stopped()
  await dashboard.close()
}

/** At the usual port unless another is asked for. */
export const start = (folder: string, { host, port }: ServeFlags): Promise<Dashboard> =>
  atPort(port, PORT, (found) => serve({ folder, host, port: found }))

/** Opens at the port that is asked for; else at the usual one, or any free one where that is taken. */
export async function atPort<T>(
  asked: number | undefined,
  usual: number,
  open: (port: number) => Promise<T>,
): Promise<T> {
  try {
    return await open(asked ?? usual)
  } catch (error) {
    const isTaken = error instanceof UserError && error.message.includes('EADDRINUSE')
    if (asked !== undefined || !isTaken) throw error
    return open(0)
  }
}

/** Resolves at Ctrl-C or a polite kill. */
export function stopped(): Promise<void> {
  return new Promise((resolve) => {
    const stop = () => {
      process.removeListener('SIGINT', stop)
      process.removeListener('SIGTERM', stop)
      resolve()
    }
    process.on('SIGINT', stop)
    process.on('SIGTERM', stop)
  })
}
