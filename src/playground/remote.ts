/**
 * Calls between the page and the worker that computes: a method by its name, what it tells meanwhile, its result, and a
 * way to stop it. Knows no methods; touches the port that it is given.
 */
import { UserError } from '../errors.ts'

/** A method that may be called from the other side. Arguments and results are what a port can carry. */
export type Method<Args, Result, Told = never> = (
  args: Args,
  tell: (told: Told) => void,
  signal: AbortSignal,
) => Promise<Result>

/** The same from the calling side, where nobody needs to listen or to stop it. */
type Remote<M> =
  M extends Method<infer Args, infer Result, infer Told>
    ? (args: Args, options?: { tell?: (told: Told) => void; signal?: AbortSignal }) => Promise<Result>
    : never

/** What both a worker and its page have. */
export interface Port {
  postMessage(message: unknown, transfer?: Transferable[]): void
  addEventListener(type: 'message', listener: (event: MessageEvent) => void): void
}

type Request = { call: number; method: string; args: unknown } | { call: number; stop: true }
type Answer =
  | { call: number; told: unknown }
  | { call: number; result: unknown }
  | { call: number; error: { message: string; forUser: boolean } }

/** Answers calls of `methods` that come through the port. */
export function answerCalls<Methods extends object>(port: Port, methods: Methods): void {
  const stops = new Map<number, AbortController>()
  const post = (answer: Answer, transfer?: Transferable[]) => port.postMessage(answer, transfer)
  port.addEventListener('message', ({ data }) => {
    const request = data as Request
    const { call } = request
    if ('stop' in request) return stops.get(call)?.abort()
    const stop = new AbortController()
    stops.set(call, stop)
    const method = (methods as Record<string, Method<unknown, unknown, unknown>>)[request.method]
    method(request.args, (told) => post({ call, told }), stop.signal)
      .then(
        (result) => post({ call, result }, result instanceof Uint8Array ? [result.buffer] : undefined),
        (error) => {
          const message = error instanceof Error ? error.message : String(error)
          post({ call, error: { message, forUser: error instanceof UserError } })
        },
      )
      .finally(() => stops.delete(call))
  })
}

/** The methods on the other side of the port. */
export function remote<Methods extends object>(
  port: Port,
): { [Name in keyof Methods]: Remote<Methods[Name]> } {
  interface Pending {
    resolve: (result: unknown) => void
    reject: (error: Error) => void
    tell?: (told: never) => void
  }
  const pending = new Map<number, Pending>()
  let calls = 0
  port.addEventListener('message', ({ data }) => {
    const answer = data as Answer
    const waiting = pending.get(answer.call)
    if (waiting === undefined) return
    if ('told' in answer) return waiting.tell?.(answer.told as never)
    pending.delete(answer.call)
    if ('result' in answer) return waiting.resolve(answer.result)
    const { message, forUser } = answer.error
    waiting.reject(forUser ? new UserError(message) : new Error(message))
  })
  const call =
    (method: string): Remote<Method<unknown, unknown, unknown>> =>
    (args, { tell, signal } = {}) =>
      new Promise((resolve, reject) => {
        const number = calls++
        pending.set(number, { resolve, reject, tell })
        signal?.addEventListener('abort', () => port.postMessage({ call: number, stop: true }))
        port.postMessage({ call: number, method, args })
      })
  return new Proxy({} as { [Name in keyof Methods]: Remote<Methods[Name]> }, {
    get: (_, method) => call(String(method)),
  })
}
