/** `message-board playground`: the playground's page, served to this machine until it is stopped. */
import { serveSite } from '../serve/site.ts'
import { atPort, stopped } from './serve.ts'
import { tell } from './terminal.ts'

export interface PlaygroundFlags {
  port?: number
}

/** Where the page is unless told: always the same, since a browser keeps runs by a page's address. */
const PORT = 8643

/** Serves until Ctrl-C. */
export async function playgroundCommand({ port }: PlaygroundFlags): Promise<void> {
  const site = await atPort(port, PORT, (found) => serveSite({ port: found }))
  tell(`The playground is at ${site.url}\nCtrl-C ends it.\n`)
  await stopped()
  await site.close()
}
