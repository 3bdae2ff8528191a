/** What is set, and the worker that computes. Signals and the browser's own storage; draws nothing. */
import { effect, signal } from '@preact/signals'
import type { Host, HostFacts } from './host.ts'
import { type Port, remote } from './remote.ts'
import {
  type ArmName,
  type ArmSettings,
  firstSettings,
  parseLink,
  type Settings,
  settingsLink,
} from './settings.ts'

const STORED = 'message-board playground'

/** Reads and writes this browser's storage; one that keeps nothing is no trouble. */
export const stored = {
  get(key: string): string | null {
    try {
      return localStorage.getItem(`${STORED} ${key}`)
    } catch {
      return null
    }
  },
  set(key: string, value: string | null): void {
    try {
      if (value === null) localStorage.removeItem(`${STORED} ${key}`)
      else localStorage.setItem(`${STORED} ${key}`, value)
    } catch {
      // Then the next visit begins from the start.
    }
  },
}

/** A link's settings, those of the last visit, or the first ones. */
export const settings = signal<Settings>(
  parseLink(location.hash) ?? parseLink(stored.get('settings') ?? '') ?? firstSettings,
)
effect(() => stored.set('settings', settingsLink(settings.value)))

export function set(changes: Partial<Settings>): void {
  settings.value = { ...settings.peek(), ...changes }
}

export function setArm(name: ArmName, changes: Partial<ArmSettings>): void {
  const { arms } = settings.peek()
  set({ arms: { ...arms, [name]: { ...arms[name], ...changes } } })
}

/** What computes; null until it is open. */
export const facts = signal<HostFacts | null>(null)
/** Why nothing works, in a sentence. */
export const trouble = signal<string | null>(null)

export const failed = (error: unknown): void => {
  if (error instanceof DOMException && error.name === 'AbortError') return
  trouble.value = error instanceof Error ? error.message : String(error)
}

const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' })
worker.addEventListener('error', ({ message }) =>
  failed(
    new Error(
      `The computing thread ended (${message || 'its script could not be loaded'}): reload the page.`,
    ),
  ),
)
export const host = remote<Host>(worker as Port)
host.open(null).then((opened) => {
  facts.value = opened
}, failed)
