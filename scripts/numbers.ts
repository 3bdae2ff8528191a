/** What the scripts that write pages reckon with. Pure. */

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2
}

/** The power of a size by which a value grows: the slope of log value on log size, by least squares. */
export function exponent(points: readonly (readonly [size: number, value: number])[]): number {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const [xs, ys] = [0, 1].map((which) => points.map((point) => Math.log(point[which])))
  const [x, y] = [mean(xs), mean(ys)]
  const slope = xs.reduce((sum, each, i) => sum + (each - x) * (ys[i] - y), 0)
  return slope / xs.reduce((sum, each) => sum + (each - x) ** 2, 0)
}
