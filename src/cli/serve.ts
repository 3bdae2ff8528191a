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

/** The usual port unless another is asked for; any free one where it is taken. */
export async function start(folder: string, { host, port }: ServeFlags): Promise<Dashboard> {
  try {
    return await serve({ folder, host, port: port ?? PORT })
  } catch (error) {
    if (port !== undefined || !(error instanceof UserError) || !error.message.includes('EADDRINUSE'))
      throw error
    return serve({ folder, host })
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
