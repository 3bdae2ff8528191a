/** The reward of both arms, step by step, with the step that is looked at. Drawn by hand: it grows at every step. */
import { useEffect, useRef, useState } from 'preact/hooks'
import type { JobView, Side } from '../view/types.ts'
import { colourOf } from '../web/colours.ts'
import { smoothed, WINDOW } from '../web/curves.ts'
import { three } from '../web/format.ts'

const HEIGHT = 220
const margin = { left: 34, right: 74, top: 10, bottom: 22 }

export interface ChartLine {
  job: JobView
  side: Side
}

export function RewardChart({
  lines,
  steps,
  at,
  onLook,
}: {
  lines: readonly ChartLine[]
  steps: number
  at: number
  onLook: (step: number) => void
}) {
  const [width, place] = useWidth()
  const room = Math.max(1, width - margin.left - margin.right)
  const x = (step: number) => margin.left + ((step - 1) / Math.max(1, steps - 1)) * room
  const y = (share: number) => margin.top + (1 - share) * (HEIGHT - margin.top - margin.bottom)
  const drawn = lines.map(({ job, side }) => {
    const raw = job.trace.measures.reward.map((value) => value ?? 0)
    const points = raw.map((value, i) => ({ step: job.trace.step[i], value }))
    const smooth = smoothed(points, WINDOW).map(({ value }) => value)
    const path = (values: readonly number[]) =>
      values
        .map((value, i) => `${i === 0 ? 'M' : 'L'}${x(job.trace.step[i]).toFixed(1)},${y(value).toFixed(1)}`)
        .join('')
    return { side, raw: path(raw), smooth: path(smooth), last: smooth.at(-1), end: job.trace.step.at(-1) }
  })
  // Names that would stand on one another are moved apart, the lower one down.
  const ends = drawn.flatMap(({ last }, i) => (last === undefined ? [] : [{ i, at: y(last) }]))
  ends.sort((a, b) => a.at - b.at)
  ends.forEach((one, k) => {
    if (k > 0) one.at = Math.max(one.at, ends[k - 1].at + 15)
  })
  const said = drawn.flatMap(({ side, last, end }) =>
    last === undefined ? [] : [`${side.title} ${three(last)} after step ${end}`],
  )
  return (
    <svg
      class="reward-chart"
      ref={place}
      viewBox={`0 0 ${width} ${HEIGHT}`}
      role="img"
      aria-label={`Share of replies that are right, by training step: ${said.join('; ') || 'no step yet'}.`}
      onPointerDown={(event) => {
        const { left } = event.currentTarget.getBoundingClientRect()
        const share = (event.clientX - left - margin.left) / room
        onLook(Math.round(1 + share * (steps - 1)))
      }}
    >
      {[0, 0.25, 0.5, 0.75, 1].map((share) => (
        <g key={share} class="tick">
          <line x1={margin.left} x2={width - margin.right} y1={y(share)} y2={y(share)} />
          <text x={margin.left - 6} y={y(share) + 3.5} text-anchor="end">
            {share}
          </text>
        </g>
      ))}
      <text class="axis" x={margin.left} y={HEIGHT - 4}>
        step 1
      </text>
      <text class="axis" x={width - margin.right} y={HEIGHT - 4} text-anchor="end">
        {steps}
      </text>
      {at > 0 ? (
        <line class="cursor" x1={x(at)} x2={x(at)} y1={margin.top} y2={HEIGHT - margin.bottom} />
      ) : null}
      {drawn.map(({ side, raw, smooth, last, end }, i) => (
        <g key={side.name} style={{ '--tone': colourOf(side) }}>
          <path class="raw" d={raw} />
          <path class="smooth" d={smooth} />
          {last === undefined || end === undefined ? null : (
            <>
              <circle cx={x(end)} cy={y(last)} r="4" />
              <text class="end" x={x(end) + 8} y={ends.find((one) => one.i === i)!.at + 4}>
                {side.title}
              </text>
            </>
          )}
        </g>
      ))}
    </svg>
  )
}

/** The width that there is to draw in, in pixels, so that lines and letters are as large on every screen. */
function useWidth() {
  const place = useRef<SVGSVGElement>(null)
  const [width, setWidth] = useState(600)
  useEffect(() => {
    const observer = new ResizeObserver(([{ contentRect }]) => setWidth(Math.round(contentRect.width)))
    if (place.current) observer.observe(place.current)
    return () => observer.disconnect()
  }, [])
  return [width, place] as const
}
