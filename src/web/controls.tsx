/** Small parts that several views use: copying, downloading, marks for right and wrong. */
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { csv } from './format.ts'

/** Saves `rows` as a CSV file. Nothing is made before the click. */
export function Download({ name, rows }: { name: string; rows: Record<string, string | number | null>[] }) {
  return (
    <button
      type="button"
      class="quiet no-print"
      onClick={() => save(name, 'text/csv', csv(rows))}
      aria-label={`Download ${name}`}
    >
      CSV
    </button>
  )
}

/** Saves bytes or text under a name. */
export function save(name: string, type: string, content: BlobPart): void {
  const url = URL.createObjectURL(new Blob([content], { type }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  // A busy browser takes its own reference seconds after the click.
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}

/** Copies `text()`; says so for a moment, to a screen reader too. */
export function Copy({ text, children }: { text: () => string; children: ComponentChildren }) {
  const [said, setSaid] = useState('')
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text())
      setSaid('Copied')
    } catch {
      setSaid(copyBySelection(text()) ? 'Copied' : 'The browser does not allow copying')
    }
    setTimeout(() => setSaid(''), 2000)
  }
  return (
    <span class="no-print">
      <button type="button" onClick={copy}>
        {children}
      </button>{' '}
      <span role="status" class="muted">
        {said}
      </span>
    </span>
  )
}

/** A page on another machine's address has no clipboard of its own; the selection works everywhere. */
function copyBySelection(text: string): boolean {
  const area = document.createElement('textarea')
  area.value = text
  document.body.append(area)
  area.select()
  const done = document.execCommand('copy')
  area.remove()
  return done
}

/** Right, wrong or cut: by shape and word, not by colour alone. */
export function Badge({
  kind,
  children,
}: {
  kind: 'right' | 'wrong' | 'cut' | 'rescued' | 'misled' | 'plain'
  children: ComponentChildren
}) {
  return <span class={`badge ${kind}`}>{children}</span>
}

/** Something that may be wider than the screen. The arrow keys scroll it once it has the focus. */
export function Wide({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable from the keyboard
    <section class="scroll-x" tabIndex={0} aria-label={label}>
      {children}
    </section>
  )
}
