// What scoring and training do to activations between products, in one pass each: halves in and out, all that lies between
// in single precision, and so is the residual stream.

// Eight halves, 16 bytes.
struct Eight {
  float v[8];
};

__device__ __forceinline__ Eight eightOf(uint4 words) {
  const unsigned packed[4] = {words.x, words.y, words.z, words.w};
  Eight eight;
#pragma unroll
  for (int k = 0; k < 4; k++) {
    const float2 pair = fromHalf2(packed[k]);
    eight.v[2 * k] = pair.x;
    eight.v[2 * k + 1] = pair.y;
  }
  return eight;
}

__device__ __forceinline__ uint4 wordsOf(const Eight& eight) {
  return make_uint4(toHalf2(eight.v[0], eight.v[1]), toHalf2(eight.v[2], eight.v[3]), toHalf2(eight.v[4], eight.v[5]),
                    toHalf2(eight.v[6], eight.v[7]));
}

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }

// out = silu(gate) up, by words of eight. A thread a word.
extern "C" __global__ void swiglu(const uint4* gate, const uint4* up, uint4* out, int words) {
  waitForPrevious();
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= words) return;
  const uint4 gates = gate[at], ups = up[at];
  Eight g = eightOf(gates);
  const Eight u = eightOf(ups);
#pragma unroll
  for (int k = 0; k < 8; k++) g.v[k] *= sigmoid(g.v[k]) * u.v[k];
  out[at] = wordsOf(g);
}

// Its gradients, which may come to lie where `gate` and `up` did.
extern "C" __global__ void swiglu_gradient(const uint4* gradient, const uint4* gate, const uint4* up, uint4* ofGate,
                                           uint4* ofUp, int words) {
  waitForPrevious();
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= words) return;
  const uint4 gradients = gradient[at], gates = gate[at], ups = up[at];
  const Eight d = eightOf(gradients);
  Eight g = eightOf(gates), u = eightOf(ups);
#pragma unroll
  for (int k = 0; k < 8; k++) {
    const float share = sigmoid(g.v[k]), silu = g.v[k] * share;
    g.v[k] = d.v[k] * u.v[k] * (share + silu * (1.0f - share));
    u.v[k] = d.v[k] * silu;
  }
  ofGate[at] = wordsOf(g);
  ofUp[at] = wordsOf(u);
}

__device__ __forceinline__ float4 quadOf(uint2 words) {
  const float2 low = fromHalf2(words.x), high = fromHalf2(words.y);
  return make_float4(low.x, low.y, high.x, high.y);
}

__device__ __forceinline__ void putQuad(unsigned short* at, float4 v) {
  *(uint2*)at = make_uint2(toHalf2(v.x, v.y), toHalf2(v.z, v.w));
}

__device__ __forceinline__ float4 plus(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Of a row each thread holds STEPS quads, the first of which this is; the next is `blockDim.x` quads further.
__device__ __forceinline__ int quad(int step) { return 4 * (step * blockDim.x + threadIdx.x); }

// sum = stream + part, its RMSNorm by weight, and what that multiplied by, inverse [rows]. A block a row. `sum` may be
// where the stream is.
extern "C" __global__ void residual_norm(const float* stream, const unsigned short* part, const float* weight,
                                         unsigned short* normed, float* sum, float* inverse, int size, float epsilon) {
  waitForPrevious();
  const long long start = (long long)blockIdx.x * size;
  float4 held[STEPS];
#pragma unroll
  for (int s = 0; s < STEPS; s++) {
    const int i = quad(s);
    if (i >= size) continue;
    held[s] = plus(*(const float4*)(stream + start + i), quadOf(*(const uint2*)(part + start + i)));
  }
  float squares = 0;
#pragma unroll
  for (int s = 0; s < STEPS; s++)
    if (quad(s) < size)
      squares += held[s].x * held[s].x + held[s].y * held[s].y + held[s].z * held[s].z + held[s].w * held[s].w;
  const float scale = rsqrtf(sumOfBlock(squares) / size + epsilon);
  if (threadIdx.x == 0) inverse[blockIdx.x] = scale;
#pragma unroll
  for (int s = 0; s < STEPS; s++) {
    const int i = quad(s);
    if (i >= size) continue;
    const float4 x = held[s], w = *(const float4*)(weight + i);
    *(float4*)(sum + start + i) = x;
    putQuad(normed + start + i, make_float4(x.x * scale * w.x, x.y * scale * w.y, x.z * scale * w.z, x.w * scale * w.w));
  }
}

// The gradients of the stream and of the part, which are the same number in either's type: through the norm, given its
// result's gradient in one to three parts, and beside it, given the sum's; what there is not is null. A block a row.
// `ofStream` may be where `ofSum` is.
extern "C" __global__ void residual_norm_gradient(const unsigned short* first, const unsigned short* second,
                                                  const unsigned short* third, const float* ofSum, const float* sum,
                                                  const float* inverse, const float* weight, float* ofStream,
                                                  unsigned short* ofPart, int size) {
  waitForPrevious();
  const long long start = (long long)blockIdx.x * size;
  const float scale = inverse[blockIdx.x];
  float4 along[STEPS], normalised[STEPS], beside[STEPS];
#pragma unroll
  for (int s = 0; s < STEPS; s++) {
    const int i = quad(s);
    if (i >= size) continue;
    const uint2 a = *(const uint2*)(first + start + i);
    const uint2 b = second == nullptr ? make_uint2(0, 0) : *(const uint2*)(second + start + i);
    const uint2 c = third == nullptr ? make_uint2(0, 0) : *(const uint2*)(third + start + i);
    beside[s] = ofSum == nullptr ? make_float4(0, 0, 0, 0) : *(const float4*)(ofSum + start + i);
    const float4 x = *(const float4*)(sum + start + i), w = *(const float4*)(weight + i);
    const float4 d = plus(quadOf(a), plus(quadOf(b), quadOf(c)));
    along[s] = make_float4(d.x * w.x, d.y * w.y, d.z * w.z, d.w * w.w);
    normalised[s] = make_float4(x.x * scale, x.y * scale, x.z * scale, x.w * scale);
  }
  float product = 0;
#pragma unroll
  for (int s = 0; s < STEPS; s++)
    if (quad(s) < size)
      product += along[s].x * normalised[s].x + along[s].y * normalised[s].y + along[s].z * normalised[s].z +
                 along[s].w * normalised[s].w;
  const float mean = sumOfBlock(product) / size;
#pragma unroll
  for (int s = 0; s < STEPS; s++) {
    const int i = quad(s);
    if (i >= size) continue;
    const float4 a = along[s], n = normalised[s], b = beside[s];
    const float4 found = make_float4((a.x - n.x * mean) * scale + b.x, (a.y - n.y * mean) * scale + b.y,
                                     (a.z - n.z * mean) * scale + b.z, (a.w - n.w * mean) * scale + b.w);
    *(float4*)(ofStream + start + i) = found;
    putQuad(ofPart + start + i, found);
  }
}

// A row of halves may begin anywhere: before its first whole word of eight and after its last stand less than eight.
struct Row {
  long long start;
  int before, words, rest;
};

__device__ __forceinline__ Row rowOf(int number, int size) {
  const long long start = (long long)number * size;
  const int before = min((int)(-start & 7), size);
  return {start, before, (size - before) / 8, (size - before) % 8};
}

// The greatest of some logits, and the sum of 2^(coolness (logit - greatest)).
struct Mass {
  float most, sum;
};

// Of no logits: finite, so that no difference of infinities is taken.
#define LEAST -1e30f

__device__ __forceinline__ Mass joined(Mass a, Mass b, float coolness) {
  const float most = fmaxf(a.most, b.most);
  return {most, a.sum * exp2f((a.most - most) * coolness) + b.sum * exp2f((b.most - most) * coolness)};
}

// The same in all threads of a block.
__device__ __forceinline__ Mass massOfBlock(Mass mass, float coolness) {
  __shared__ Mass parts[32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  for (int step = 16; step > 0; step >>= 1)
    mass = joined(mass, {__shfl_xor_sync(0xffffffff, mass.most, step), __shfl_xor_sync(0xffffffff, mass.sum, step)}, coolness);
  if (lane == 0) parts[warp] = mass;
  __syncthreads();
  mass = lane < warps ? parts[lane] : Mass{LEAST, 0.0f};
  for (int step = 16; step > 0; step >>= 1)
    mass = joined(mass, {__shfl_xor_sync(0xffffffff, mass.most, step), __shfl_xor_sync(0xffffffff, mass.sum, step)}, coolness);
  return mass;
}

// Words that a thread has asked for at a time.
#define AT_ONCE 4
#define LOG2E 1.44269504f
#define LN2 0.69314718f

// The log-probability of each row's target under softmax(logits / temperature), and the logarithm of the sum of
// exponentials. A block a row.
extern "C" __global__ void target_logprobs(const unsigned short* logits, const int* targets, const float* temperature,
                                           float* logprobs, float* logSums, int vocabulary) {
  waitForPrevious();
  const Row row = rowOf(blockIdx.x, vocabulary);
  const unsigned short* from = logits + row.start;
  const uint4* words = (const uint4*)(from + row.before);
  const float coolness = LOG2E / *temperature;
  Mass mass = {LEAST, 0.0f};
  if (threadIdx.x < row.before) mass = {fromHalf(from[threadIdx.x]), 1.0f};
  if (threadIdx.x < row.rest)
    mass = joined(mass, {fromHalf(from[row.before + 8 * row.words + threadIdx.x]), 1.0f}, coolness);
  for (int first = threadIdx.x; first < row.words; first += AT_ONCE * blockDim.x) {
    uint4 some[AT_ONCE];
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
      const int at = first + k * blockDim.x;
      some[k] = at < row.words ? words[at] : make_uint4(0xfc00fc00, 0xfc00fc00, 0xfc00fc00, 0xfc00fc00);
    }
    float most = mass.most;
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
      const Eight eight = eightOf(some[k]);
#pragma unroll
      for (int j = 0; j < 8; j++) most = fmaxf(most, eight.v[j]);
    }
    const float shift = most * coolness;
    float sum = mass.sum * exp2f((mass.most - most) * coolness);
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
      const Eight eight = eightOf(some[k]);
#pragma unroll
      for (int j = 0; j < 8; j++) sum += exp2f(eight.v[j] * coolness - shift);
    }
    mass = {most, sum};
  }
  mass = massOfBlock(mass, coolness);
  if (threadIdx.x == 0) {
    const float logSum = LN2 * (mass.most * coolness + log2f(mass.sum));
    logSums[blockIdx.x] = logSum;
    logprobs[blockIdx.x] = fromHalf(from[targets[blockIdx.x]]) / *temperature - logSum;
  }
}

// 2^lift times the softmax of rows whose logarithms of sums are known. It may come to lie where the logits do. A block a
// row.
extern "C" __global__ void lifted_shares(const unsigned short* logits, const float* logSums, const float* temperature,
                                         unsigned short* shares, int vocabulary, float lift) {
  waitForPrevious();
  const Row row = rowOf(blockIdx.x, vocabulary);
  const unsigned short* from = logits + row.start;
  unsigned short* to = shares + row.start;
  const uint4* words = (const uint4*)(from + row.before);
  uint4* found = (uint4*)(to + row.before);
  const float coolness = LOG2E / *temperature, shift = LOG2E * logSums[blockIdx.x] - lift;
  if (threadIdx.x < row.before) to[threadIdx.x] = toHalf(exp2f(fromHalf(from[threadIdx.x]) * coolness - shift));
  if (threadIdx.x < row.rest) {
    const int at = row.before + 8 * row.words + threadIdx.x;
    to[at] = toHalf(exp2f(fromHalf(from[at]) * coolness - shift));
  }
  for (int first = threadIdx.x; first < row.words; first += AT_ONCE * blockDim.x) {
    uint4 some[AT_ONCE];
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
      const int at = first + k * blockDim.x;
      if (at < row.words) some[k] = words[at];
    }
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
      const int at = first + k * blockDim.x;
      if (at >= row.words) continue;
      Eight eight = eightOf(some[k]);
#pragma unroll
      for (int j = 0; j < 8; j++) eight.v[j] = exp2f(eight.v[j] * coolness - shift);
      found[at] = wordsOf(eight);
    }
  }
}
