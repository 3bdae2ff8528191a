/** The servers of an engine, and which policies are where. Talks to nobody. */
import type { Server } from './server.ts'

export interface Fleet {
  /** The server of a new policy: of those that answer, one with the fewest. It is counted there. */
  choose(): Server
  /** The server of that address, if it is one of the fleet's; the policy is counted there, and no longer at `from`. */
  move(url: string, from: Server): Server | undefined
  leave(server: Server): void
  /** Work that `settled` waits for. */
  later(work: Promise<void>): void
  settled(): Promise<void>
}

export function openFleet(servers: readonly Server[]): Fleet {
  /** Policies on each server, frozen ones among them. */
  const policies = new Map(servers.map((server) => [server, 0]))
  const unfinished = new Set<Promise<void>>()
  const count = (server: Server, more: number) => {
    policies.set(server, (policies.get(server) ?? 0) + more)
  }
  return {
    choose() {
      const alive = servers.filter(({ lost }) => !lost())
      // Where all are lost, one may be back.
      const [first] = (alive.length > 0 ? alive : servers).toSorted(
        (a, b) => (policies.get(a) ?? 0) - (policies.get(b) ?? 0),
      )
      count(first, 1)
      return first
    },
    move(url, from) {
      const to = servers.find(({ client }) => client.url === url)
      if (!to) return undefined
      count(from, -1)
      count(to, 1)
      return to
    },
    leave(server) {
      count(server, -1)
    },
    later(work) {
      unfinished.add(work)
      work.finally(() => unfinished.delete(work)).catch(() => {})
    },
    async settled() {
      await Promise.allSettled(unfinished)
    },
  }
}
