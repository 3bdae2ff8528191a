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
  let candidates: Candidate[] = []
  let mass = 0
  let size = 0
  for (const likely of LIKELY) {
    const cut = Math.max(likely, least)
    candidates = atLeast(logprobs, cut)
    mass = 0
    size = 0
    while (size < candidates.length && mass < topP) mass += candidates[size++].probability
    if (mass >= topP || cut === least) break
  }
  let rest = uniform * mass
  let chosen = 0
  while (chosen < size - 1 && rest >= candidates[chosen].probability) rest -= candidates[chosen++].probability
  const { token } = candidates[chosen]
  return { token, samplingLogprob: logprobs[token] - Math.log(mass) }
}

interface Candidate {
  token: number
  probability: number
}

/** Log-probabilities down to which candidates are looked for, one after the other: 1 in 150, in 8,000, every one. */
const LIKELY = [-5, -9, Number.NEGATIVE_INFINITY]

/** The tokens of at least that log-probability, the likeliest first; ties go to the lower id. */
function atLeast(logprobs: Float32Array, cut: number): Candidate[] {
  const found: Candidate[] = []
  for (let token = 0; token < logprobs.length; token++) {
    if (logprobs[token] >= cut) found.push({ token, probability: Math.exp(logprobs[token]) })
  }
  return found.sort((a, b) => b.probability - a.probability || a.token - b.token)
}

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
