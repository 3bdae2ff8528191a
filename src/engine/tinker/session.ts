/**
 * A session on a server, which keeps what belongs to it alive while signs of life come. Owns its id and its clock; what
 * is said to the server is its caller's.
 */

export interface Session {
  /** The session's id; begun when first asked for, and anew after its end. */
  current(): Promise<string>
  /** That session is no more. */
  end(id: string): void
  close(): void
}

export interface SessionOptions {
  begin(): Promise<string>
  /** A sign of life; false where the server does not know the session any more. */
  beat(id: string): Promise<boolean>
  /** Milliseconds between two of them. */
  every: number
}

export function openSession({ begin, beat, every }: SessionOptions): Session {
  let session: Promise<string> | null = null
  let known: string | null = null
  const end = (id: string) => {
    if (known !== id) return
    known = null
    session = null
  }
  const timer = setInterval(async () => {
    const id = known
    if (id !== null && !(await beat(id))) end(id)
  }, every)
  timer.unref()
  return {
    current() {
      session ??= begin().then(
        (id) => {
          known = id
          return id
        },
        (error: unknown) => {
          session = null
          throw error
        },
      )
      return session
    },
    end,
    close: () => clearInterval(timer),
  }
}
