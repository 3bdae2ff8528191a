// Attention of one new token a sample: to its prompt, whose keys and values samples share, and to what was drawn since.
//
// Compiled for HEADS, KV_HEADS and HEAD_DIM, a multiple of 32. A warp takes 16 queries of one key-value head and 32 keys
// at a time; KEY_WARPS share the keys of a block, and as many again take 16 queries more. Scores are powers of two: queries come with log2(e) / sqrt(HEAD_DIM) in them.

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

// What a block holds, in rows that begin in other banks.
#define BLOCK_KEYS (KEY_WARPS * KEYS)
#define THREADS (64 * KEY_WARPS)
#define KEY_STRIDE (HEAD_DIM / 8 + 1)
#define VALUE_STRIDE (BLOCK_KEYS / 8 + 1)
struct Shared {
  union {
    struct {
      uint4 keys[BLOCK_KEYS * KEY_STRIDE];
      uint4 values[HEAD_DIM * VALUE_STRIDE];
    };
    // Of each warp, when all have seen their keys.
    float mixed[2][KEY_WARPS][16][HEAD_DIM + 8];
  };
  uint4 queries[32 * KEY_STRIDE];
  float most[2][KEY_WARPS][16], sum[2][KEY_WARPS][16];
};

// Begins to load keys [.., HEAD_DIM] and values [HEAD_DIM, stride] from `key` on, up to `end`.
__device__ __forceinline__ void load(Shared& to, const unsigned short* keys, const unsigned short* values, int stride,
                                     int key, int end) {
  const int count = min(end - key, BLOCK_KEYS);
  for (int i = threadIdx.x; i < count * (HEAD_DIM / 8); i += THREADS) {
    const int row = i / (HEAD_DIM / 8), word = i % (HEAD_DIM / 8);
    copyAsync16(&to.keys[row * KEY_STRIDE + word], keys + (long long)(key + row) * HEAD_DIM + word * 8);
  }
  const int words = (count + 7) / 8;
  for (int i = threadIdx.x; i < HEAD_DIM * (BLOCK_KEYS / 8); i += THREADS) {
    const int row = i / (BLOCK_KEYS / 8), word = i % (BLOCK_KEYS / 8);
    if (word < words)
      copyAsync16(&to.values[row * VALUE_STRIDE + word], values + (long long)row * stride + key + word * 8);
  }
  copyAsyncCommit();
}

// The keys from `key` on of those loaded, of which those before `end` count: one at least. Queries are those of `tile`.
__device__ __forceinline__ void lookAt(Seen& seen, const Shared& from, int tile, int key, int end) {
  const int lane = threadIdx.x & 31, quarter = lane & 3;
  // Where a lane points for a fragment: of queries rows 0 to 7 and 8 to 15 of a word, then of the next; of keys and
  // values a row of four words.
  const uint4* ofQueries = from.queries + (tile * 16 + (lane & 15)) * KEY_STRIDE + (lane >> 4);
  const uint4* ofKeys = from.keys + (key + (lane & 7)) * KEY_STRIDE + (lane >> 3);
  const uint4* ofValues = from.values + (lane & 7) * VALUE_STRIDE + key / 8 + (lane >> 3);
  float scores[4][4] = {};
#pragma unroll
  for (int s = 0; s < STEPS; s++) {
    unsigned first[4], second[4], v[4][4];
    ldmatrix4(first, ofQueries + 4 * s);
    ldmatrix4(second, ofQueries + 4 * s + 2);
#pragma unroll
    for (int j = 0; j < 4; j++) ldmatrix4(v[j], ofKeys + j * 8 * KEY_STRIDE + 4 * s);
#pragma unroll
    for (int j = 0; j < 4; j++) mma(scores[j], first, {v[j][0], v[j][1]});
#pragma unroll
    for (int j = 0; j < 4; j++) mma(scores[j], second, {v[j][2], v[j][3]});
  }
  const int mine = key + 2 * quarter;
  float most[2] = {seen.most[0], seen.most[1]};
#pragma unroll
  for (int j = 0; j < 4; j++)
#pragma unroll
    for (int q = 0; q < 4; q++) {
      if (mine + 8 * j + (q & 1) >= end) scores[j][q] = -INFINITY;
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
    unsigned v[4];
    ldmatrix4(v, ofValues + n * 8 * VALUE_STRIDE);
    // What was never loaded may be no number, which a share of nothing does not take away.
    if (!whole)
      for (int j = 0; j < 4; j++) v[j] = keptHalves(v[j], mine + 8 * j, end);
    mma(seen.mixed[n], {shares[0][0], shares[0][1], shares[1][0], shares[1][1]}, {v[0], v[1]});
    mma(seen.mixed[n], {shares[2][0], shares[2][1], shares[3][0], shares[3][1]}, {v[2], v[3]});
  }
}

// Leaves what a warp has seen for the others of its block.
__device__ __forceinline__ void leave(Shared& to, const Seen& seen, int tile, int warp) {
  const int lane = threadIdx.x & 31, group = lane >> 2, quarter = lane & 3;
  for (int h = 0; h < 2; h++) {
    const int row = group + 8 * h;
    if (quarter == 0) {
      to.most[tile][warp][row] = seen.most[h];
      to.sum[tile][warp][row] = seen.sum[h];
    }
    for (int n = 0; n < WIDE; n++)
      *(float2*)&to.mixed[tile][warp][row][n * 8 + quarter * 2] = make_float2(seen.mixed[n][2 * h], seen.mixed[n][2 * h + 1]);
  }
}

// Blocks of samples and KV_HEADS come first, then those of prompts: by parts of `each` keys, a multiple of BLOCK_KEYS, by
// prompts and KV_HEADS. q [samples, HEADS, HEAD_DIM]; the prompts' keys [prompts, KV_HEADS, time, HEAD_DIM] and values
// [prompts, KV_HEADS, HEAD_DIM, time]; samples of prompt p are firstSamples[p] to firstSamples[p + 1]; their own keys
// [samples, KV_HEADS, window, HEAD_DIM] and values [samples, KV_HEADS, HEAD_DIM, window], of which `at` count. Leaves mixed
// [parts + 1, samples, HEADS, HEAD_DIM], not divided by the sums, and stats [parts + 1, samples, HEADS, 2], greatest score
// and sum, the samples' own as the last part. Shared memory: a Shared.
extern "C" __global__ void __launch_bounds__(THREADS, 8 / KEY_WARPS)
look(const unsigned short* q, const unsigned short* promptKeys, const unsigned short* promptValues, int time,
     const int* promptLengths, const int* firstSamples, int prompts, int parts, int each, const unsigned short* ownKeys,
     const unsigned short* ownValues, int window, const int* at, int samples, float* mixed, float* stats) {
  DYNAMIC_SHARED(Shared, held);
  letNextBegin();
  const int warp = (threadIdx.x >> 5) % KEY_WARPS, half = threadIdx.x / (32 * KEY_WARPS);
  const int ofSamples = samples * KV_HEADS;
  int part = parts, kv, first, queries = GROUP, from = 0, to, stride = window;
  const unsigned short *keys, *values;
  if ((int)blockIdx.x >= ofSamples) {
    part = (blockIdx.x - ofSamples) % parts;
    const int cache = (blockIdx.x - ofSamples) / parts, prompt = cache / KV_HEADS;
    kv = cache % KV_HEADS;
    first = firstSamples[prompt];
    queries = (firstSamples[prompt + 1] - first) * GROUP;
    from = part * each;
    to = min(from + each, promptLengths[prompt]);
    if (from >= to) return;
    stride = time;
    keys = promptKeys + (long long)cache * time * HEAD_DIM;
    values = promptValues + (long long)cache * HEAD_DIM * time;
    // Prompts do not depend on what ran before.
    load(*held, keys, values, stride, from, to);
    waitForPrevious();
  } else {
    const int cache = blockIdx.x;
    first = cache / KV_HEADS;
    kv = cache % KV_HEADS;
    keys = ownKeys + (long long)cache * window * HEAD_DIM;
    values = ownValues + (long long)cache * HEAD_DIM * window;
    waitForPrevious();
    to = *at;
    load(*held, keys, values, stride, from, to);
  }
  auto place = [&](int query) { return (long long)(first + query / GROUP) * HEADS + kv * GROUP + query % GROUP; };
  const long long start = (long long)part * samples * HEADS;
  for (int query = 0; query < queries; query += 32) {
    for (int i = threadIdx.x; i < 32 * (HEAD_DIM / 8); i += THREADS) {
      const int row = i / (HEAD_DIM / 8), word = i % (HEAD_DIM / 8);
      copyAsync16(&held->queries[row * KEY_STRIDE + word], q + place(min(query + row, queries - 1)) * HEAD_DIM + word * 8);
    }
    copyAsyncCommit();
    Seen seen;
    begin(seen);
    // A half without queries of its own waits for the other.
    const bool looks = query + half * 16 < queries;
    for (int key = from; key < to; key += BLOCK_KEYS) {
      if (key > from || query > 0) {
        __syncthreads();
        load(*held, keys, values, stride, key, to);
      }
      copyAsyncWait<0>();
      __syncthreads();
      if (looks && key + warp * KEYS < to) lookAt(seen, *held, half, warp * KEYS, min(to - key, BLOCK_KEYS));
    }
    __syncthreads();
    if (looks) leave(*held, seen, half, warp);
    __syncthreads();
    for (int i = 4 * threadIdx.x; i < 32 * HEAD_DIM; i += 4 * THREADS) {
      const int row = i / HEAD_DIM, column = i % HEAD_DIM, tile = row / 16;
      if (query + row >= queries) break;
      float most = -INFINITY, sum = 0;
      for (int w = 0; w < KEY_WARPS; w++) most = fmaxf(most, held->most[tile][w][row % 16]);
      float4 value = make_float4(0, 0, 0, 0);
      // Warps are added in their order, so that sums are always the same.
      for (int w = 0; w < KEY_WARPS; w++) {
        if (held->sum[tile][w][row % 16] == 0) continue;
        const float fading = exp2f(held->most[tile][w][row % 16] - most);
        const float4 more = *(const float4*)&held->mixed[tile][w][row % 16][column];
        sum += held->sum[tile][w][row % 16] * fading;
        value.x += more.x * fading;
        value.y += more.y * fading;
        value.z += more.z * fading;
        value.w += more.w * fading;
      }
      const long long head = start + place(query + row);
      *(float4*)(mixed + head * HEAD_DIM + column) = value;
      if (column == 0) *(float2*)(stats + head * 2) = make_float2(most, sum);
    }
    __syncthreads();
  }
}

// What `look` left, joined: out [samples, HEADS, HEAD_DIM]. A warp for each head of a sample; parts are less than 32.
extern "C" __global__ void __launch_bounds__(KEY_WARPS * 32)
settle(const float* mixed, const float* stats, const int* promptOf, const int* promptLengths, int parts, int each,
       int samples, unsigned short* out) {
  constexpr int EACH = HEAD_DIM / 32;
  letNextBegin();
  waitForPrevious();
  const int lane = threadIdx.x & 31, head = blockIdx.x * KEY_WARPS + (threadIdx.x >> 5);
  if (head >= samples * HEADS) return;
  const int prompt = promptOf[head / HEADS];
  const int count = (promptLengths[prompt] + each - 1) / each;
  // Lane p stands for part p, and lane `count` for the sample's own.
  const int part = lane < count ? lane : parts;
  const long long stride = (long long)samples * HEADS;
  const float2 mine = *(const float2*)(stats + (part * stride + head) * 2);
  float most = lane <= count ? mine.x : -INFINITY;
  for (int step = 16; step > 0; step >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, step));
  const float factor = lane <= count ? exp2f(mine.x - most) : 0.0f;
  float sum = factor * mine.y;
  for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, step);
  float values[EACH] = {};
#pragma unroll 4
  for (int p = 0; p <= count; p++) {
    const float weight = __shfl_sync(0xffffffff, factor, p);
    const float* from = mixed + ((p < count ? p : parts) * stride + head) * HEAD_DIM + lane;
#pragma unroll
    for (int e = 0; e < EACH; e++) values[e] += weight * from[32 * e];
  }
#pragma unroll
  for (int e = 0; e < EACH; e++) out[(long long)head * HEAD_DIM + lane + 32 * e] = toHalf(values[e] / sum);
}
