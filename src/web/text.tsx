/** A model's text as the views show it. */
import { pieces } from './texts.ts'

/** A model's text: as text, isolated from what stands around it, with the answer marked and hidden characters shown. */
export function Text({
  text,
  answer,
  length,
}: {
  text: string
  answer: string | null
  length?: number | undefined
}) {
  return (
    <bdi>
      {pieces(text, answer, length).map((piece, i) =>
        piece.kind === 'plain' ? (
          piece.text
        ) : piece.kind === 'answer' ? (
          <mark key={i}>{piece.text}</mark>
        ) : (
          <span key={i} class="code-point" title="a character that would not be seen">
            {piece.text}
          </span>
        ),
      )}
    </bdi>
  )
}
