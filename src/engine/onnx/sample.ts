/** Draws one token from log-probabilities: temperature is already in them, top-p (Holtzman et al. 2020) is here. */

export interface Draw {
  token: number
  /** Log-probability under the nucleus, renormalised. */
  samplingLogprob: number
}

/**
 * Draws from the smallest set of most likely tokens whose probabilities sum to at least `topP` (ties go to the lower
 * id). `logprobs` are normalised over the vocabulary; `uniform` in [0, 1) decides.
 */
export function draw(logprobs: Float32Array, topP: number, uniform: number): Draw {
  if (topP >= 1) {
    const token = drawFull(logprobs, uniform)
    return { token, samplingLogprob: logprobs[token] }
  }
  // Tokens below (1 - topP) / V sum to less than 1 - topP, so none of them is in the nucleus. Most nuclei are of likely
  // tokens: those are looked at first, and rarer ones only where the mass asks for them.
  const least = Math.log((1 - topP) / logprobs.length)
  let found = 0
  let mass = 0
  let size = 0
  for (const likely of LIKELY) {
    const cut = Math.max(likely, least)
    found = sortAtLeast(logprobs, cut)
    mass = 0
    size = 0
    while (size < found && mass < topP) mass += Math.exp(logprobs[tokenAt(size++)])
    if (mass >= topP || cut === least) break
  }
  let rest = uniform * mass
  let chosen = 0
  for (; chosen < size - 1; chosen++) {
    const probability = Math.exp(logprobs[tokenAt(chosen)])
    if (rest < probability) break
    rest -= probability
  }
  const token = tokenAt(chosen)
  return { token, samplingLogprob: logprobs[token] - Math.log(mass) }
}

/** Log-probabilities down to which candidates are looked for, one after the other: 1 in 150, in 8,000, every one. */
const LIKELY = [-5, -9, Number.NEGATIVE_INFINITY]

/**
 * Candidates as numbers that sort by likelihood: a log-probability of single precision leaves the last 29 bits of a
 * double empty, which hold its token. Of equally likely ones the lower token is nearer to 0, and so the likelier.
 */
let keys = new Float64Array(0)
let words = new Uint32Array(0)
const TOKEN_BITS = 2 ** 29 - 1
/** Which of a double's two words has its last bits. */
const LAST = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1 ? 0 : 1
let candidates = 0

/** Sorts the tokens of at least that log-probability, and says how many they are. */
function sortAtLeast(logprobs: Float32Array, cut: number): number {
  if (keys.length < logprobs.length) {
    keys = new Float64Array(logprobs.length)
    words = new Uint32Array(keys.buffer)
  }
  candidates = 0
  for (let token = 0; token < logprobs.length; token++) {
    const logprob = logprobs[token]
    // What cannot be drawn has no bits to spare.
    if (logprob < cut || logprob === Number.NEGATIVE_INFINITY) continue
    keys[candidates] = logprob
    words[2 * candidates + LAST] |= token
    candidates++
  }
  keys.subarray(0, candidates).sort()
  return candidates
}

/** The token of that rank among the candidates, the likeliest's being 0. */
const tokenAt = (rank: number): number => words[2 * (candidates - 1 - rank) + LAST] & TOKEN_BITS

/** Below this log-probability a token's exponential is only computed when the draw falls into the rare rest. */
const RARE = -12

/** Inverse of the cumulative distribution, likely tokens laid out before rare ones. */
function drawFull(logprobs: Float32Array, uniform: number): number {
  let rest = uniform
  let last = 0
  for (const rare of [false, true]) {
    for (let token = 0; token < logprobs.length; token++) {
      if (logprobs[token] < RARE !== rare) continue
      last = token
      rest -= Math.exp(logprobs[token])
      if (rest < 0) return token
    }
  }
  // Rounding left a sliver above the last token.
  return last
}
