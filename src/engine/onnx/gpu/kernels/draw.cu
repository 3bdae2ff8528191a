// Drawing a token from each row of logits [rows, vocabulary], or from its nucleus (Holtzman et al. 2020). Masses of
// probability are whole numbers of 2^-38, so that their sums do not depend on the order in which threads add.
//
// PIECES blocks share a row. Logits are multiplied by `coolness`, one over the temperature.

#define MASS 274877906944.0f
// The nucleus's least log-probability is looked for within so many nats below certainty: all tokens below it together
// have less than 1e-5. Two levels of bins, the second within one of the first, tell 0.0015 nats apart; tokens within
// 0.2% of each other's probability count as equally likely.
#define RANGE 24.0f
#define BINS 128

typedef unsigned long long Mass;

__device__ __forceinline__ float greatest(float value) {
  __shared__ float parts[32];
  for (int step = 16; step > 0; step >>= 1) value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, step));
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  if (lane == 0) parts[warp] = value;
  __syncthreads();
  value = lane < warps ? parts[lane] : -INFINITY;
  for (int step = 16; step > 0; step >>= 1) value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, step));
  return value;
}

// A piece of a row: from, to.
__device__ __forceinline__ int2 piece(int vocabulary, int number) {
  const int each = (vocabulary + PIECES - 1) / PIECES;
  return make_int2(min(number * each, vocabulary), min((number + 1) * each, vocabulary));
}

// Greatest logit over the temperature and the sum of exponentials below it of a piece, into pieces [rows, PIECES, 2].
// Counters of the step are set to nothing. Grid: PIECES, rows.
extern "C" __global__ void weigh(const float* logits, int vocabulary, float coolness, float* pieces, Mass* coarse,
                                 Mass* fine) {
  letNextBegin();
  waitForPrevious();
  const float* row = logits + (long long)blockIdx.y * vocabulary;
  const int2 part = piece(vocabulary, blockIdx.x);
  float most = -INFINITY;
  for (int i = part.x + threadIdx.x; i < part.y; i += blockDim.x) most = fmaxf(most, row[i]);
  most = greatest(most) * coolness;
  float sum = 0;
  for (int i = part.x + threadIdx.x; i < part.y; i += blockDim.x) sum += __expf(row[i] * coolness - most);
  sum = sumOfBlock(sum);
  if (threadIdx.x == 0) {
    float* to = pieces + ((long long)blockIdx.y * PIECES + blockIdx.x) * 2;
    to[0] = most;
    to[1] = sum;
  }
  if (blockIdx.x == 0)
    for (int i = threadIdx.x; i < BINS; i += blockDim.x)
      coarse[blockIdx.y * BINS + i] = fine[blockIdx.y * BINS + i] = 0;
}

// The logarithm of the sum of a row's exponentials, from its pieces.
__device__ __forceinline__ float certain(const float* pieces, int row) {
  float most = -INFINITY, sum = 0;
  for (int p = 0; p < PIECES; p++) most = fmaxf(most, pieces[(row * PIECES + p) * 2]);
  for (int p = 0; p < PIECES; p++)
    sum += pieces[(row * PIECES + p) * 2 + 1] * __expf(pieces[(row * PIECES + p) * 2] - most);
  return most + __logf(sum);
}

__device__ __forceinline__ Mass massOf(float logprob) { return (Mass)(__expf(logprob) * MASS); }

// Bins stand in the order of falling probability.
__device__ __forceinline__ int binOf(float logprob, float perBin, float from) {
  return (int)fminf(fmaxf((from - logprob) * perBin, 0.0f), BINS - 1.0f);
}

// Bins to a nat, and nats of a coarse one.
#define COARSE (BINS / RANGE)
#define FINE (BINS * BINS / RANGE)
#define WIDTH (RANGE / BINS)

// Masses in a block's own bins are whole numbers of 2^-31, which the device adds faster. Lanes that meet in a bin do so in
// several copies of it.
#define COPIES 8
#define UNIT_SHIFT 7

struct Bins {
  unsigned counts[BINS * COPIES];
};

__device__ __forceinline__ void clear(Bins& bins) {
  for (int i = threadIdx.x; i < BINS * COPIES; i += blockDim.x) bins.counts[i] = 0;
}

__device__ __forceinline__ void count(Bins& bins, int bin, Mass mass) {
  atomicAdd(&bins.counts[bin * COPIES + (threadIdx.x & (COPIES - 1))], (unsigned)(mass >> UNIT_SHIFT));
}

__device__ __forceinline__ void give(const Bins& bins, Mass* to) {
  for (int i = threadIdx.x; i < BINS; i += blockDim.x) {
    Mass sum = 0;
    for (int c = 0; c < COPIES; c++) sum += bins.counts[i * COPIES + c];
    if (sum > 0) atomicAdd(&to[i], sum << UNIT_SHIFT);
  }
}

// The first bin with which the sum reaches `wanted`, and what was before it; the last if none does. By a whole warp.
__device__ __forceinline__ int reaching(const Mass* bins, Mass wanted, Mass* before) {
  constexpr int EACH = BINS / 32;
  const int lane = threadIdx.x & 31;
  Mass mine[EACH], sum = 0;
  for (int e = 0; e < EACH; e++) {
    mine[e] = bins[lane * EACH + e];
    sum += mine[e];
  }
  Mass upTo = sum;
  for (int step = 1; step < 32; step <<= 1) {
    const Mass other = __shfl_up_sync(0xffffffff, upTo, step);
    if (lane >= step) upTo += other;
  }
  const unsigned enough = __ballot_sync(0xffffffff, upTo >= wanted);
  const int owner = enough == 0 ? 31 : __ffs(enough) - 1;
  int bin = EACH - 1;
  Mass here = upTo - sum;
  for (int e = 0; e < EACH - 1; e++) {
    if (here + mine[e] >= wanted) {
      bin = e;
      break;
    }
    here += mine[e];
  }
  *before = __shfl_sync(0xffffffff, here, owner);
  return __shfl_sync(0xffffffff, lane * EACH + bin, owner);
}

// Adds a piece's masses to the row's bins: the coarse ones of all tokens.
extern "C" __global__ void bin_coarsely(const float* logits, int vocabulary, float coolness, const float* pieces,
                                        Mass* coarse) {
  __shared__ Bins bins;
  clear(bins);
  letNextBegin();
  waitForPrevious();
  __syncthreads();
  const float* row = logits + (long long)blockIdx.y * vocabulary;
  const float sum = certain(pieces, blockIdx.y);
  const int2 part = piece(vocabulary, blockIdx.x);
  for (int i = part.x + threadIdx.x; i < part.y; i += blockDim.x) {
    const float logprob = row[i] * coolness - sum;
    const Mass mass = massOf(logprob);
    if (mass > 0) count(bins, binOf(logprob, COARSE, 0.0f), mass);
  }
  __syncthreads();
  give(bins, coarse + blockIdx.y * BINS);
}

// The fine ones of the tokens in the coarse bin with which the nucleus is full.
extern "C" __global__ void bin_finely(const float* logits, int vocabulary, float coolness, float topP,
                                      const float* pieces, const Mass* coarse, Mass* fine) {
  __shared__ Bins bins;
  clear(bins);
  __shared__ int found;
  letNextBegin();
  waitForPrevious();
  if (threadIdx.x < 32) {
    Mass before;
    const int bin = reaching(coarse + blockIdx.y * BINS, (Mass)(topP * MASS), &before);
    if (threadIdx.x == 0) found = bin;
  }
  __syncthreads();
  const float* row = logits + (long long)blockIdx.y * vocabulary;
  const float sum = certain(pieces, blockIdx.y);
  const int edge = found;
  const int2 part = piece(vocabulary, blockIdx.x);
  for (int i = part.x + threadIdx.x; i < part.y; i += blockDim.x) {
    const float logprob = row[i] * coolness - sum;
    const Mass mass = massOf(logprob);
    if (mass > 0 && binOf(logprob, COARSE, 0.0f) == edge)
      count(bins, binOf(logprob, FINE, -edge * WIDTH), mass);
  }
  __syncthreads();
  give(bins, fine + blockIdx.y * BINS);
}

// Whether a token belongs to the nucleus whose edge is this coarse and this fine bin.
__device__ __forceinline__ bool inside(float logprob, int coarse, int fine) {
  if (coarse == BINS) return true;
  const int bin = binOf(logprob, COARSE, 0.0f);
  return bin < coarse || (bin == coarse && binOf(logprob, FINE, -coarse * WIDTH) <= fine);
}

// The bins at the edge of a row's nucleus, of all tokens if that is all. By a whole block.
__device__ __forceinline__ int2 edgeOf(const Mass* coarse, const Mass* fine, int row, float topP) {
  __shared__ int2 edge;
  if (threadIdx.x < 32) {
    int2 bins = make_int2(BINS, BINS);
    if (topP < 1.0f) {
      const Mass wanted = (Mass)(topP * MASS);
      Mass before, rest;
      bins.x = reaching(coarse + row * BINS, wanted, &before);
      bins.y = reaching(fine + row * BINS, wanted - min(before, wanted), &rest);
    }
    if (threadIdx.x == 0) edge = bins;
  }
  __syncthreads();
  return edge;
}

__device__ __forceinline__ Mass sumOfMasses(Mass value, Mass* warps) {
  for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(0xffffffff, value, step);
  if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = value;
  __syncthreads();
  value = 0;
  for (int w = 0; w < (int)blockDim.x >> 5; w++) value += warps[w];
  return value;
}

// The mass that a piece keeps, into kept [rows, PIECES]. Grid: PIECES, rows.
extern "C" __global__ void keep(const float* logits, int vocabulary, float coolness, float topP, const float* pieces,
                                const Mass* coarse, const Mass* fine, Mass* kept) {
  __shared__ Mass warps[32];
  letNextBegin();
  waitForPrevious();
  const float* row = logits + (long long)blockIdx.y * vocabulary;
  const float sum = certain(pieces, blockIdx.y);
  const int2 edge = edgeOf(coarse, fine, blockIdx.y, topP);
  const int2 part = piece(vocabulary, blockIdx.x);
  Mass mass = 0;
  for (int i = part.x + threadIdx.x; i < part.y; i += blockDim.x) {
    const float logprob = row[i] * coolness - sum;
    if (inside(logprob, edge.x, edge.y)) mass += massOf(logprob);
  }
  mass = sumOfMasses(mass, warps);
  if (threadIdx.x == 0) kept[blockIdx.y * PIECES + blockIdx.x] = mass;
}

// Draws a token for each row by its uniform number, in the order of ids: tokens [rows], and line `at` of drawn, logprobs
// and samplingLogprobs [steps, rows]. A block a row.
extern "C" __global__ void choose(const float* logits, int vocabulary, float coolness, float topP,
                                  const float* pieces, const Mass* coarse, const Mass* fine, const Mass* kept,
                                  const float* uniforms, const int* at, int* tokens, int* drawn, float* logprobs,
                                  float* samplingLogprobs) {
  __shared__ Mass warps[32];
  letNextBegin();
  waitForPrevious();
  const int line = blockIdx.x, rows = gridDim.x;
  const float* row = logits + (long long)line * vocabulary;
  const float sum = certain(pieces, line);
  const int2 edge = edgeOf(coarse, fine, line, topP);
  Mass total = 0;
  for (int p = 0; p < PIECES; p++) total += kept[line * PIECES + p];
  const long long place = (long long)*at * rows + line;
  // Of 24 bits, as many as a uniform number has: the product fits.
  Mass wanted = ((Mass)(uniforms[place] * 16777216.0f) * total) >> 24;
  int number = 0;
  while (number < PIECES - 1 && wanted >= kept[line * PIECES + number]) wanted -= kept[line * PIECES + number++];
  const int2 part = piece(vocabulary, number);
  const int each = (part.y - part.x + blockDim.x - 1) / blockDim.x;
  const int from = min(part.x + (int)threadIdx.x * each, part.y), to = min(from + each, part.y);
  Mass mine = 0;
  for (int i = from; i < to; i++) {
    const float logprob = row[i] * coolness - sum;
    if (inside(logprob, edge.x, edge.y)) mine += massOf(logprob);
  }
  // Sums of the warps before, and within the warp.
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  Mass before = mine;
  for (int step = 1; step < 32; step <<= 1) {
    const Mass other = __shfl_up_sync(0xffffffff, before, step);
    if (lane >= step) before += other;
  }
  if (lane == 31) warps[warp] = before;
  __syncthreads();
  before -= mine;
  for (int w = 0; w < warp; w++) before += warps[w];
  // Of logits that are no numbers nothing can be drawn: who reads the log-probabilities says so.
  if (total == 0 && threadIdx.x == 0) {
    tokens[line] = drawn[place] = 0;
    logprobs[place] = samplingLogprobs[place] = sum;
  }
  if (mine == 0 || wanted < before || wanted >= before + mine) return;
  Mass sumSoFar = before;
  for (int i = from; i < to; i++) {
    const float logprob = row[i] * coolness - sum;
    if (!inside(logprob, edge.x, edge.y)) continue;
    sumSoFar += massOf(logprob);
    if (wanted >= sumSoFar) continue;
    tokens[line] = drawn[place] = i;
    logprobs[place] = logprob;
    samplingLogprobs[place] = topP < 1.0f ? logprob - __logf((float)total / MASS) : logprob;
    break;
  }
}
