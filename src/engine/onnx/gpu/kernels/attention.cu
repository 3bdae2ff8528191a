// Attention of one new token a sample: to its prompt, whose keys and values samples share, and to what was drawn since.
//
// Compiled for HEADS, KV_HEADS and HEAD_DIM, a multiple of 32. A warp takes 16 queries of one key-value head and 32 keys
// at a time. Scores are powers of two: queries come with log2(e) / sqrt(HEAD_DIM) in them.

#define GROUP (HEADS / KV_HEADS)
#define STEPS (HEAD_DIM / 32)
#define WIDE (HEAD_DIM / 8)
#define KEYS 32

// What a warp has seen so far of 16 queries: as fragments of a product, rows lane / 4 and lane / 4 + 8.
struct Seen {
  float mixed[WIDE][4];
  // The greatest score, and the sum of powers below it, of either row.
  float most[2], sum[2];
};

__device__ __forceinline__ void begin(Seen& seen) {
  for (int n = 0; n < WIDE; n++)
    for (int q = 0; q < 4; q++) seen.mixed[n][q] = 0;
  for (int h = 0; h < 2; h++) {
    seen.most[h] = -INFINITY;
    seen.sum[h] = 0;
  }
}

__device__ __forceinline__ unsigned keptHalves(unsigned packed, int key, int end) {
  if (key + 1 < end) return packed;
  return key < end ? packed & 0xffff : 0;
}

// Keys [.., HEAD_DIM] and values [HEAD_DIM, stride] from `key` on, of which those before `end` count.
__device__ __forceinline__ void look(Seen& seen, const uint4 (&low)[STEPS], const uint4 (&high)[STEPS],
                                     const unsigned short* keys, const unsigned short* values, int stride, int key,
                                     int end) {
  const int lane = threadIdx.x & 31, group = lane >> 2, quarter = lane & 3;
  // Column c of tile j is key 8 * (c / 2) + 2 * j + c % 2: so a lane's columns of all tiles are 8 keys in a row, as it
  // reads values.
  float scores[4][4] = {};
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const int mine = min(key + 8 * (group >> 1) + 2 * j + (group & 1), end - 1);
    const uint4* from = (const uint4*)(keys + (long long)mine * HEAD_DIM) + quarter;
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
      const uint4 v = loaded(from + 4 * s);
      mma(scores[j], {low[s].x, high[s].x, low[s].y, high[s].y}, {v.x, v.y});
      mma(scores[j], {low[s].z, high[s].z, low[s].w, high[s].w}, {v.z, v.w});
    }
  }
  const int first = key + 8 * quarter;
  float most[2] = {seen.most[0], seen.most[1]};
#pragma unroll
  for (int j = 0; j < 4; j++)
#pragma unroll
    for (int q = 0; q < 4; q++) {
      if (first + 2 * j + (q & 1) >= end) scores[j][q] = -INFINITY;
      most[q >> 1] = fmaxf(most[q >> 1], scores[j][q]);
    }
  float sum[2] = {0, 0};
#pragma unroll
  for (int h = 0; h < 2; h++) {
    most[h] = fmaxf(most[h], __shfl_xor_sync(0xffffffff, most[h], 1));
    most[h] = fmaxf(most[h], __shfl_xor_sync(0xffffffff, most[h], 2));
  }
#pragma unroll
  for (int j = 0; j < 4; j++)
#pragma unroll
    for (int q = 0; q < 4; q++) {
      scores[j][q] = exp2f(scores[j][q] - most[q >> 1]);
      sum[q >> 1] += scores[j][q];
    }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    sum[h] += __shfl_xor_sync(0xffffffff, sum[h], 1);
    sum[h] += __shfl_xor_sync(0xffffffff, sum[h], 2);
    const float fading = exp2f(seen.most[h] - most[h]);
    seen.sum[h] = seen.sum[h] * fading + sum[h];
    seen.most[h] = most[h];
#pragma unroll
    for (int n = 0; n < WIDE; n++) {
      seen.mixed[n][2 * h] *= fading;
      seen.mixed[n][2 * h + 1] *= fading;
    }
  }
  unsigned shares[4][2];
#pragma unroll
  for (int j = 0; j < 4; j++)
#pragma unroll
    for (int h = 0; h < 2; h++) shares[j][h] = toHalf2(scores[j][2 * h], scores[j][2 * h + 1]);
  const bool whole = key + KEYS <= end;
#pragma unroll
  for (int n = 0; n < WIDE; n++) {
    uint4 v = loaded((const uint4*)(values + (long long)(n * 8 + group) * stride + key) + quarter);
    if (!whole) {
      // What was never written may be no number, which a share of nothing does not take away.
      v.x = keptHalves(v.x, first, end);
      v.y = keptHalves(v.y, first + 2, end);
      v.z = keptHalves(v.z, first + 4, end);
      v.w = keptHalves(v.w, first + 6, end);
    }
    mma(seen.mixed[n], {shares[0][0], shares[0][1], shares[1][0], shares[1][1]}, {v.x, v.y});
    mma(seen.mixed[n], {shares[2][0], shares[2][1], shares[3][0], shares[3][1]}, {v.z, v.w});
  }
}

// What the warps of a block have seen, joined: `mixed` [16][HEAD_DIM] by the greatest score of all and `stats` its sums,
// in shared memory. Warps add in their order, so that sums are always the same.
struct Joined {
  float mixed[16][HEAD_DIM];
  float most[16], sum[16];
  float mosts[WARPS][16], sums[WARPS][16];
};

__device__ __forceinline__ void join(Joined& joined, const Seen& seen) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = lane >> 2, quarter = lane & 3;
  if (quarter == 0)
    for (int h = 0; h < 2; h++) {
      joined.mosts[warp][group + 8 * h] = seen.most[h];
      joined.sums[warp][group + 8 * h] = seen.sum[h];
    }
  __syncthreads();
  if (threadIdx.x < 16) {
    float most = -INFINITY, sum = 0;
    for (int w = 0; w < WARPS; w++) most = fmaxf(most, joined.mosts[w][threadIdx.x]);
    for (int w = 0; w < WARPS; w++)
      if (joined.sums[w][threadIdx.x] > 0)
        sum += joined.sums[w][threadIdx.x] * exp2f(joined.mosts[w][threadIdx.x] - most);
    joined.most[threadIdx.x] = most;
    joined.sum[threadIdx.x] = sum;
  }
  __syncthreads();
  for (int w = 0; w < WARPS; w++) {
    if (w == warp)
      for (int h = 0; h < 2; h++) {
        const int row = group + 8 * h;
        const float factor = seen.sum[h] > 0 ? exp2f(seen.most[h] - joined.most[row]) : 0.0f;
        for (int n = 0; n < WIDE; n++)
          for (int q = 0; q < 2; q++) {
            float& to = joined.mixed[row][n * 8 + quarter * 2 + q];
            const float mine = seen.mixed[n][2 * h + q] * factor;
            to = w == 0 ? mine : to + mine;
          }
      }
    __syncthreads();
  }
}

// Prompts by parts of `each` keys, a multiple of WARPS * KEYS. q [samples, HEADS, HEAD_DIM]; keys [prompts, KV_HEADS,
// time, HEAD_DIM]; values [prompts, KV_HEADS, HEAD_DIM, time]; samples of prompt p are firstSamples[p] to
// firstSamples[p + 1]. Grid: parts, prompts * KV_HEADS, 16 queries of a prompt. Leaves mixed [parts, samples, HEADS,
// HEAD_DIM], not divided by the sums, and stats [parts, samples, HEADS, 2], greatest score and sum.
extern "C" __global__ void __launch_bounds__(WARPS * 32)
look_at_prompts(const unsigned short* q, const unsigned short* keys, const unsigned short* values, int time,
                const int* promptLengths, const int* firstSamples, int samples, int each, float* mixed, float* stats) {
  __shared__ Joined joined;
  const int prompt = blockIdx.y / KV_HEADS, kv = blockIdx.y % KV_HEADS;
  const int length = promptLengths[prompt], first = firstSamples[prompt];
  const int queries = (firstSamples[prompt + 1] - first) * GROUP;
  const int from = blockIdx.x * each, to = min(from + each, length);
  if (from >= length || (int)blockIdx.z * 16 >= queries) return;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = lane >> 2, quarter = lane & 3;
  auto place = [&](int query) {
    return (long long)(first + query / GROUP) * HEADS + kv * GROUP + query % GROUP;
  };
  waitForPrevious();
  uint4 low[STEPS], high[STEPS];
  const uint4* lowFrom = (const uint4*)(q + place(min((int)blockIdx.z * 16 + group, queries - 1)) * HEAD_DIM) + quarter;
  const uint4* highFrom =
      (const uint4*)(q + place(min((int)blockIdx.z * 16 + group + 8, queries - 1)) * HEAD_DIM) + quarter;
  for (int s = 0; s < STEPS; s++) {
    low[s] = loaded(lowFrom + 4 * s);
    high[s] = loaded(highFrom + 4 * s);
  }
  Seen seen;
  begin(seen);
  const unsigned short* keysHere = keys + (long long)blockIdx.y * time * HEAD_DIM;
  const unsigned short* valuesHere = values + (long long)blockIdx.y * HEAD_DIM * time;
  for (int key = from + warp * KEYS; key < to; key += WARPS * KEYS)
    look(seen, low, high, keysHere, valuesHere, time, key, to);
  letNextBegin();
  join(joined, seen);
  for (int at = threadIdx.x; at < 16 * HEAD_DIM; at += WARPS * 32) {
    const int query = blockIdx.z * 16 + at / HEAD_DIM;
    if (query < queries)
      mixed[((long long)blockIdx.x * samples * HEADS + place(query)) * HEAD_DIM + at % HEAD_DIM] =
          joined.mixed[at / HEAD_DIM][at % HEAD_DIM];
  }
  const int query = blockIdx.z * 16 + threadIdx.x;
  if (threadIdx.x < 16 && query < queries) {
    float* to = stats + ((long long)blockIdx.x * samples * HEADS + place(query)) * 2;
    to[0] = joined.most[threadIdx.x];
    to[1] = joined.sum[threadIdx.x];
  }
}

// What was drawn since, keys [samples, KV_HEADS, window, HEAD_DIM] and values [samples, KV_HEADS, HEAD_DIM, window], of
// which `at` count, and the prompts' parts joined to it: out [samples, HEADS, HEAD_DIM]. Grid: samples, KV_HEADS.
extern "C" __global__ void __launch_bounds__(WARPS * 32)
look_at_own(const unsigned short* q, const unsigned short* keys, const unsigned short* values, int window, const int* at,
            const int* promptOf, const int* promptLengths, int each, const float* mixed, const float* stats,
            unsigned short* out) {
  __shared__ Joined joined;
  const int sample = blockIdx.x, kv = blockIdx.y, samples = gridDim.x;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = lane >> 2, quarter = lane & 3;
  waitForPrevious();
  const int end = *at;
  const long long heads = (long long)sample * HEADS + kv * GROUP;
  uint4 low[STEPS], high[STEPS];
  const uint4* lowFrom = (const uint4*)(q + (heads + min(group, GROUP - 1)) * HEAD_DIM) + quarter;
  const uint4* highFrom = (const uint4*)(q + (heads + min(group + 8, GROUP - 1)) * HEAD_DIM) + quarter;
  for (int s = 0; s < STEPS; s++) {
    low[s] = loaded(lowFrom + 4 * s);
    high[s] = loaded(highFrom + 4 * s);
  }
  Seen seen;
  begin(seen);
  const long long caches = ((long long)sample * KV_HEADS + kv) * window * HEAD_DIM;
  for (int key = warp * KEYS; key < end; key += WARPS * KEYS)
    look(seen, low, high, keys + caches, values + caches, window, key, end);
  letNextBegin();
  join(joined, seen);
  const int parts = (promptLengths[promptOf[sample]] + each - 1) / each;
  for (int at = threadIdx.x; at < GROUP * HEAD_DIM; at += WARPS * 32) {
    const int row = at / HEAD_DIM, i = at % HEAD_DIM;
    float most = joined.most[row];
    for (int p = 0; p < parts; p++) most = fmaxf(most, stats[((long long)p * samples * HEADS + heads + row) * 2]);
    float fading = exp2f(joined.most[row] - most);
    float sum = joined.sum[row] * fading, value = joined.mixed[row][i] * fading;
    for (int p = 0; p < parts; p++) {
      const long long place = (long long)p * samples * HEADS + heads + row;
      fading = exp2f(stats[place * 2] - most);
      sum += stats[place * 2 + 1] * fading;
      value += mixed[place * HEAD_DIM + i] * fading;
    }
    out[(heads + row) * HEAD_DIM + i] = toHalf(value / sum);
  }
}
