/**
 * One worker or tab writes a run folder at a time: by the browser's own locks (Web Locks), which end with whoever holds
 * them, however it ends.
 */
import { UserError } from '../errors.ts'

/** A browser's folders hold no lock files; one that came from elsewhere may. */
export const isLock = (name: string): boolean => /^\.lock-([1-9]\d{0,14})$/.test(name)

const nameOf = (folder: string) => `message-board ${folder.replace(/\/+$/, '')}`

export async function lockFolder(folder: string): Promise<() => void> {
  return new Promise((resolve, reject) => {
    const held = navigator.locks.request(nameOf(folder), { ifAvailable: true }, (lock) => {
      if (lock === null) {
        throw new UserError(
          `Another tab or worker is writing ${folder}: wait for it, or choose another folder.`,
        )
      }
      return new Promise<void>((release) => resolve(release))
    })
    held.catch(reject)
  })
}

export async function isHeld(folder: string): Promise<boolean> {
  const { held = [] } = await navigator.locks.query()
  return held.some(({ name }) => name === nameOf(folder))
}
