/** The tags and the note of a run, as the person who looks after it wrote them. */
import type { Notes } from '../record/schema.ts'

export function Said({ notes: { note, tags } }: { notes: Notes }) {
  return (
    <>
      {tags.length > 0 ? (
        <p class="tags">
          {tags.map((tag) => (
            <span key={tag} class="tag">
              {tag}
            </span>
          ))}
        </p>
      ) : null}
      {note === '' ? null : <p class="note">{note}</p>}
    </>
  )
}
