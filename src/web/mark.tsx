/** The project's mark. */

/** A board with four notes, one of them read. */
export function Mark() {
  return (
    <svg viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">
      <rect x="1" y="1" width="18" height="18" rx="4" fill="none" stroke="currentColor" stroke-width="1.6" />
      <rect x="4.5" y="4.5" width="4.5" height="4.5" rx="1" fill="var(--arm-0)" />
      <rect x="11" y="4.5" width="4.5" height="4.5" rx="1" fill="currentColor" opacity="0.35" />
      <rect x="4.5" y="11" width="4.5" height="4.5" rx="1" fill="currentColor" opacity="0.35" />
      <rect x="11" y="11" width="4.5" height="4.5" rx="1" fill="var(--arm-1)" />
    </svg>
  )
}
