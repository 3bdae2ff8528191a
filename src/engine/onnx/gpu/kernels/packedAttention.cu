// Attention of packed sequences (pack.ts), and its gradients, by tiles that stay on the chip (FlashAttention-2, Dao 2023).
//
// Compiled for HEADS, KV_HEADS and HEAD_DIM, a multiple of 32. Rows of q, mixed and their gradients are [batch, time, HEADS *
// HEAD_DIM], those of k, v and theirs [batch, time, KV_HEADS * HEAD_DIM], as the linear maps give and take them. A position
// sees what stands before it in its own segment and in segment 0. Negative segments are padding, which nobody else sees: its
// rows are finite, and no more is said of them.
//
// Tiles of which nothing is seen are passed over, by the least and the greatest segment of each 64 positions (`ranges`
// [batch, tiles, 2], as unsigned, so that padding comes last).

#define GROUP (HEADS / KV_HEADS)
// From one row to the next in shared memory: rows begin in other banks.
#define STRIDE (HEAD_DIM + 8)
#define WORDS (HEAD_DIM / 8)
#define STEPS (HEAD_DIM / 16)
#define TILE 64
#define PADDING 0xffffffffu
#define LOG2E 1.44269504f
// Two halves.
#define ONES 0x3c003c00u
// How far a power of two may reach above the greatest before, until sums are made less instead: halves hold more.
#define REACH 8.0f

__device__ __forceinline__ uint2 joined(uint2 a, uint2 b) { return make_uint2(min(a.x, b.x), max(a.y, b.y)); }

// Of 128 positions, from a multiple of that.
__device__ __forceinline__ uint2 rangeOf2(const uint2* ranges, int tile, int tiles) {
  return joined(ranges[tile], ranges[min(tile + 1, tiles - 1)]);
}

// Whether one of these queries may see one of these keys, when it comes after it.
__device__ __forceinline__ bool sees(uint2 queries, uint2 keys) {
  return queries.x != PADDING && (keys.x == 0 || (keys.x <= queries.y && queries.x <= keys.y));
}

// Whether each sees each, when all come after.
__device__ __forceinline__ bool seesAll(uint2 queries, uint2 keys) {
  return keys.y == 0 || (keys.x == keys.y && queries.x == queries.y && keys.x == queries.x);
}

// Begins to load rows from `first` on. The last row stands for those behind it, which nobody sees.
template <int ROWS, int THREADS>
__device__ __forceinline__ void load(unsigned short* to, const unsigned short* from, int step, int first, int time) {
  constexpr int COPIES = ROWS * WORDS / THREADS;
  static_assert(ROWS * WORDS % THREADS == 0, "every thread loads as much");
#pragma unroll
  for (int n = 0; n < COPIES; n++) {
    // Where threads are so many rows, each goes down a column.
    constexpr bool columns = THREADS % WORDS == 0;
    const int i = threadIdx.x + n * THREADS;
    const int row = columns ? threadIdx.x / WORDS + n * (THREADS / WORDS) : i / WORDS;
    const int word = columns ? threadIdx.x % WORDS : i % WORDS;
    copyAsync16(to + row * STRIDE + word * 8, from + min(first + row, time - 1) * step + word * 8);
  }
}

// Products of 16 * M rows of `a` with 8 * N rows of `b`, over HEAD_DIM.
template <int M, int N>
__device__ __forceinline__ void dot(float (&sums)[M][N][4], const unsigned short* a, const unsigned short* b) {
  const int lane = threadIdx.x & 31;
  a += (lane & 15) * STRIDE + (lane >> 4) * 8;
  b += ((lane & 7) + (lane >> 4) * 8) * STRIDE + (lane >> 3 & 1) * 8;
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) sums[m][n][i] = 0;
#pragma unroll
  for (int s = 0; s < STEPS; s++) {
    unsigned left[M][4];
#pragma unroll
    for (int m = 0; m < M; m++) ldmatrix4(left[m], a + m * 16 * STRIDE + s * 16);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      unsigned right[4];
      ldmatrix4(right, b + n * 8 * STRIDE + s * 16);
#pragma unroll
      for (int m = 0; m < M; m++) {
        mma(sums[m][n], left[m], {right[0], right[1]});
        mma(sums[m][n + 1], left[m], {right[2], right[3]});
      }
    }
  }
}

// Two such products at a time, of 16 rows each that are held as operands.
template <int N>
__device__ __forceinline__ void dotHeld(float (&first)[1][N][4], const unsigned (&a)[STEPS][4], const unsigned short* b,
                                        float (&second)[1][N][4], const unsigned (&c)[STEPS][4], const unsigned short* d) {
  const int lane = threadIdx.x & 31, at = ((lane & 7) + (lane >> 4) * 8) * STRIDE + (lane >> 3 & 1) * 8;
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int i = 0; i < 4; i++) first[0][n][i] = second[0][n][i] = 0;
#pragma unroll
  for (int s = 0; s < STEPS; s++)
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      unsigned right[4];
      ldmatrix4(right, b + at + n * 8 * STRIDE + s * 16);
      mma(first[0][n], a[s], {right[0], right[1]});
      mma(first[0][n + 1], a[s], {right[2], right[3]});
      ldmatrix4(right, d + at + n * 8 * STRIDE + s * 16);
      mma(second[0][n], c[s], {right[0], right[1]});
      mma(second[0][n + 1], c[s], {right[2], right[3]});
    }
}

// Adds 8 * N rows of `b` in the given shares, [16 * M, 8 * N], which go from products' results to operands as they are. With
// SUMMED the shares are added to `whole` too, as a product with ones: in every column, of which the even ones count.
template <bool SUMMED, int M, int N>
__device__ __forceinline__ void mix(float (&sums)[M][WORDS][4], float (&whole)[M][4], const float (&shares)[M][N][4],
                                    const unsigned short* b) {
  const int lane = threadIdx.x & 31;
  b += (lane & 15) * STRIDE + (lane >> 4) * 8;
#pragma unroll
  for (int t = 0; t < N; t += 2) {
    unsigned left[M][4];
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        left[m][i] = toHalf2(shares[m][t + i / 2][i % 2 * 2], shares[m][t + i / 2][i % 2 * 2 + 1]);
    if (SUMMED)
#pragma unroll
      for (int m = 0; m < M; m++) mma(whole[m], left[m], {ONES, ONES});
#pragma unroll
    for (int n = 0; n < WORDS; n += 2) {
      unsigned right[4];
      ldmatrix4Transposed(right, b + t * 8 * STRIDE + n * 8);
#pragma unroll
      for (int m = 0; m < M; m++) {
        mma(sums[m][n], left[m], {right[0], right[1]});
        mma(sums[m][n + 1], left[m], {right[2], right[3]});
      }
    }
  }
}

template <int M, int N>
__device__ __forceinline__ void mix(float (&sums)[M][WORDS][4], const float (&shares)[M][N][4], const unsigned short* b) {
  float none[M][4];
  mix<false>(sums, none, shares, b);
}

template <int M>
__device__ __forceinline__ void clear(float (&sums)[M][WORDS][4]) {
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int n = 0; n < WORDS; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) sums[m][n][i] = 0;
}

// A warp's 16 * M rows, each times its factor, as halves by way of shared memory, `held`, that is the warp's own.
template <int M>
__device__ __forceinline__ void store(unsigned short* to, int step, int first, int time, const float (&sums)[M][WORDS][4],
                                      const float (&factors)[M][2], unsigned short* held) {
  const int lane = threadIdx.x & 31, group = lane >> 2, quarter = lane & 3;
  __syncwarp();
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int n = 0; n < WORDS; n++)
        *(unsigned*)(held + (m * 16 + h * 8 + group) * STRIDE + n * 8 + quarter * 2) =
            toHalf2(sums[m][n][2 * h] * factors[m][h], sums[m][n][2 * h + 1] * factors[m][h]);
  __syncwarp();
#pragma unroll
  for (int i = lane; i < 16 * M * WORDS; i += 32) {
    const int row = i / WORDS, word = i % WORDS;
    if (first + row < time)
      *(uint4*)(to + (long long)(first + row) * step + word * 8) = *(const uint4*)(held + row * STRIDE + word * 8);
  }
}

// segments [batch, time], ranges [batch, tiles, 2]. A warp for each tile: grid tiles x batch.
extern "C" __global__ void __launch_bounds__(32) segment_ranges(const int* segments, int time, unsigned* ranges) {
  waitForPrevious();
  const int tile = blockIdx.x, at = tile * TILE + threadIdx.x;
  const int* row = segments + (long long)blockIdx.y * time;
  const unsigned first = row[min(at, time - 1)], second = row[min(at + 32, time - 1)];
  uint2 range = make_uint2(min(first, second), max(first, second));
  for (int step = 16; step > 0; step >>= 1)
    range = joined(range, make_uint2(__shfl_xor_sync(0xffffffff, range.x, step), __shfl_xor_sync(0xffffffff, range.y, step)));
  if (threadIdx.x == 0) ((uint2*)ranges)[blockIdx.y * gridDim.x + tile] = range;
}

// Queries of a block, 32 of each warp; each block of queries is of one head.
#define QUERIES 128
#define QUERY_WARPS 4
#define QUERY_THREADS (32 * QUERY_WARPS)

template <int KEYS>
struct __align__(16) KeyStage {
  unsigned short keys[KEYS * STRIDE], values[KEYS * STRIDE];
};
struct __align__(16) Forward {
  unsigned short queries[QUERIES * STRIDE];
  KeyStage<TILE> stages[2];
};

// What a block of queries goes through: parts of KEYS keys, of tiles that are seen.
template <int KEYS>
struct Keys {
  const uint2* ranges;
  uint2 queries;
  int end;
  __device__ __forceinline__ int from(int key) const {
    while (key < end && !sees(queries, ranges[key / TILE])) key += TILE;
    return key;
  }
  __device__ __forceinline__ int after(int key) const {
    key += KEYS;
    return key % TILE == 0 ? from(key) : key;
  }
};

// Hides what a query does not see: columns are keys from `key` on, rows are a warp's queries from `query` on.
template <int N>
__device__ __forceinline__ void hide(float (&scores)[2][N][4], const int* segments, int time, int query, int key) {
  const int lane = threadIdx.x & 31, group = lane >> 2, quarter = lane & 3;
  int own[2][2];
#pragma unroll
  for (int m = 0; m < 2; m++)
#pragma unroll
    for (int h = 0; h < 2; h++) own[m][h] = segments[min(query + m * 16 + h * 8 + group, time - 1)];
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int c = 0; c < 2; c++) {
      const int column = key + n * 8 + quarter * 2 + c, segment = segments[min(column, time - 1)];
#pragma unroll
      for (int m = 0; m < 2; m++)
#pragma unroll
        for (int h = 0; h < 2; h++)
          if ((column > query + m * 16 + h * 8 + group) | ((segment != 0) & (segment != own[m][h])))
            scores[m][n][2 * h + c] = -INFINITY;
    }
}

// mixed as q, and of each row the logarithm to base 2 of its sum of powers of e, sums [batch, HEADS, time]. Grid: HEADS x
// batch x blocks of QUERIES, the longest first. Shared memory: a Forward.
extern "C" __global__ void __launch_bounds__(QUERY_THREADS, 2)
packed_attention(const unsigned short* q, const unsigned short* k, const unsigned short* v, const int* segments,
                 const unsigned* ranges, int time, unsigned short* mixed, float* sums) {
  DYNAMIC_SHARED(Forward, forward);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = lane >> 2;
  const int head = blockIdx.x, row = blockIdx.y, first = (gridDim.z - 1 - blockIdx.z) * QUERIES;
  const int tiles = (time + TILE - 1) / TILE, mine = first + warp * 32;
  const long long start = (long long)row * time;
  const int step = HEADS * HEAD_DIM, keyStep = KV_HEADS * HEAD_DIM;
  const float scale = LOG2E * rsqrtf(HEAD_DIM);
  q += start * step + head * HEAD_DIM;
  k += start * keyStep + head / GROUP * HEAD_DIM;
  v += start * keyStep + head / GROUP * HEAD_DIM;
  segments += start;
  waitForPrevious();
  load<QUERIES, QUERY_THREADS>(forward->queries, q, step, first, time);
  Keys<TILE> seen;
  seen.ranges = (const uint2*)ranges + (long long)row * tiles;
  seen.queries = rangeOf2(seen.ranges, first / TILE, tiles);
  seen.end = min(first + QUERIES, tiles * TILE);
  auto ask = [&](int key, int stage) {
    if (key < seen.end) {
      load<TILE, QUERY_THREADS>(forward->stages[stage].keys, k, keyStep, key, time);
      load<TILE, QUERY_THREADS>(forward->stages[stage].values, v, keyStep, key, time);
    }
    copyAsyncCommit();
  };
  int key = seen.from(0), stage = 0;
  ask(key, 0);
  // Powers are those of scores less `base`, which stays where it is while they are not much above it.
  float out[2][WORDS][4], base[2][2], sum[2][4] = {};
  clear(out);
#pragma unroll
  for (int m = 0; m < 2; m++) base[m][0] = base[m][1] = -INFINITY;
  while (key < seen.end) {
    const int next = seen.after(key);
    copyAsyncWait<0>();
    __syncthreads();
    ask(next, stage ^ 1);
    if (key < mine + 32) {
      float scores[2][TILE / 8][4];
      dot(scores, forward->queries + warp * 32 * STRIDE, forward->stages[stage].keys);
      if (key + TILE > mine + 1 || !seesAll(seen.queries, seen.ranges[key / TILE])) hide(scores, segments, time, mine, key);
      float most[2][2];
      bool grows = false;
#pragma unroll
      for (int m = 0; m < 2; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          float now = -INFINITY;
#pragma unroll
          for (int n = 0; n < TILE / 8; n++) now = fmaxf(now, fmaxf(scores[m][n][2 * h], scores[m][n][2 * h + 1]));
          now = fmaxf(now, __shfl_xor_sync(0xffffffff, now, 1));
          most[m][h] = fmaxf(now, __shfl_xor_sync(0xffffffff, now, 2));
          grows |= most[m][h] * scale > base[m][h] + REACH;
        }
      if (__any_sync(0xffffffff, grows))
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
          for (int h = 0; h < 2; h++) {
            const float now = fmaxf(base[m][h], most[m][h] * scale);
            // A row may see nothing of its first tiles.
            const float fading = now == -INFINITY ? 1.0f : powerOf2(base[m][h] - now);
            base[m][h] = now;
            sum[m][2 * h] *= fading;
#pragma unroll
            for (int n = 0; n < WORDS; n++) {
              out[m][n][2 * h] *= fading;
              out[m][n][2 * h + 1] *= fading;
            }
          }
#pragma unroll
      for (int m = 0; m < 2; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const float off = base[m][h] == -INFINITY ? 0.0f : base[m][h];
#pragma unroll
          for (int n = 0; n < TILE / 8; n++)
#pragma unroll
            for (int c = 0; c < 2; c++) {
              float& score = scores[m][n][2 * h + c];
              score = powerOf2(score * scale - off);
            }
        }
      mix<true>(out, sum, scores, forward->stages[stage].values);
    }
    key = next;
    stage ^= 1;
  }
  copyAsyncWait<0>();
  float inverse[2][2];
#pragma unroll
  for (int m = 0; m < 2; m++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const float whole = sum[m][2 * h];
      // Whole blocks of padding have seen nothing.
      inverse[m][h] = whole > 0 ? 1 / whole : 0.0f;
      const int query = mine + m * 16 + h * 8 + group;
      if ((lane & 3) == 0 && query < time)
        sums[((long long)row * HEADS + head) * time + query] = whole > 0 ? base[m][h] + __log2f(whole) : 0.0f;
    }
  store(mixed + start * step + head * HEAD_DIM, step, mine, time, out, inverse, forward->queries + warp * 32 * STRIDE);
}

// Keys that a block of queries takes at a time, for their gradients.
#define FEW 32
struct __align__(16) Backward {
  unsigned short queries[QUERIES * STRIDE], gradients[QUERIES * STRIDE];
  KeyStage<FEW> stages[2];
};

// The gradient of q, `toQueries`, given mixed's, and what the keys' gradients need too: of each row the sum of mixed times
// its gradient, which a softmax takes off, taken [batch, HEADS, time]. Grid as packed_attention's. Shared memory: a Backward.
extern "C" __global__ void __launch_bounds__(QUERY_THREADS, 2)
packed_attention_queries(const unsigned short* gradient, const unsigned short* q, const unsigned short* k,
                         const unsigned short* v, const unsigned short* mixed, const float* sums, const int* segments,
                         const unsigned* ranges, int time, unsigned short* toQueries, float* taken) {
  DYNAMIC_SHARED(Backward, backward);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = lane >> 2;
  const int head = blockIdx.x, row = blockIdx.y, first = (gridDim.z - 1 - blockIdx.z) * QUERIES;
  const int tiles = (time + TILE - 1) / TILE, mine = first + warp * 32;
  const long long start = (long long)row * time;
  const int step = HEADS * HEAD_DIM, keyStep = KV_HEADS * HEAD_DIM;
  const float scale = LOG2E * rsqrtf(HEAD_DIM);
  k += start * keyStep + head / GROUP * HEAD_DIM;
  v += start * keyStep + head / GROUP * HEAD_DIM;
  segments += start;
  const long long queryStart = start * step + head * HEAD_DIM, rowStart = ((long long)row * HEADS + head) * time;
  waitForPrevious();
  load<QUERIES, QUERY_THREADS>(backward->gradients, gradient + queryStart, step, first, time);
  copyAsyncCommit();
  load<QUERIES, QUERY_THREADS>(backward->queries, q + queryStart, step, first, time);
  Keys<FEW> seen;
  seen.ranges = (const uint2*)ranges + (long long)row * tiles;
  seen.queries = rangeOf2(seen.ranges, first / TILE, tiles);
  seen.end = min(first + QUERIES, tiles * TILE);
  auto ask = [&](int key, int stage) {
    if (key < seen.end) {
      load<FEW, QUERY_THREADS>(backward->stages[stage].keys, k, keyStep, key, time);
      load<FEW, QUERY_THREADS>(backward->stages[stage].values, v, keyStep, key, time);
    }
    copyAsyncCommit();
  };
  int key = seen.from(0), stage = 0;
  ask(key, 0);
  copyAsyncWait<1>();
  __syncthreads();
  // A row for each lane.
  float ofRow = 0;
  {
    const uint4* results = (const uint4*)(mixed + queryStart + (long long)min(mine + lane, time - 1) * step);
    const uint4* theirs = (const uint4*)(backward->gradients + (warp * 32 + lane) * STRIDE);
#pragma unroll
    for (int word = 0; word < WORDS; word++) {
      const uint4 x = results[word], y = theirs[word];
      const unsigned left[4] = {x.x, x.y, x.z, x.w}, right[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const float2 a = fromHalf2(left[i]), b = fromHalf2(right[i]);
        ofRow += a.x * b.x + a.y * b.y;
      }
    }
    if (mine + lane < time) taken[rowStart + mine + lane] = ofRow;
  }
  float sum[2][2], off[2][2];
#pragma unroll
  for (int m = 0; m < 2; m++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int at = m * 16 + h * 8 + group;
      sum[m][h] = sums[rowStart + min(mine + at, time - 1)];
      off[m][h] = __shfl_sync(0xffffffff, ofRow, at);
    }
  float out[2][WORDS][4];
  clear(out);
  while (key < seen.end) {
    const int next = seen.after(key);
    copyAsyncWait<0>();
    __syncthreads();
    ask(next, stage ^ 1);
    if (key < mine + 32) {
      float scores[2][FEW / 8][4], changes[2][FEW / 8][4];
      dot(scores, backward->queries + warp * 32 * STRIDE, backward->stages[stage].keys);
      dot(changes, backward->gradients + warp * 32 * STRIDE, backward->stages[stage].values);
      if (key + FEW > mine + 1 || !seesAll(seen.queries, seen.ranges[key / TILE])) hide(scores, segments, time, mine, key);
#pragma unroll
      for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < FEW / 8; n++)
#pragma unroll
          for (int i = 0; i < 4; i++)
            changes[m][n][i] =
                powerOf2(scores[m][n][i] * scale - sum[m][i / 2]) * (changes[m][n][i] - off[m][i / 2]);
      mix(out, changes, backward->stages[stage].keys);
    }
    key = next;
    stage ^= 1;
  }
  copyAsyncWait<0>();
  __syncthreads();
  const float factor = rsqrtf(HEAD_DIM);
  store(toQueries + queryStart, step, mine, time, out, {{factor, factor}, {factor, factor}},
        backward->queries + warp * 32 * STRIDE);
}

// Keys of a block, 16 of each warp; queries that it takes at a time from shared memory, and from there.
#define KEYS 128
#define KEY_WARPS 8
#define KEY_THREADS (32 * KEY_WARPS)
#define AT_ONCE 32

struct __align__(16) QueryStage {
  unsigned short queries[TILE * STRIDE], gradients[TILE * STRIDE];
  // Their sums, and what is taken off.
  float rows[2][TILE];
};
struct __align__(16) KeysBackward {
  unsigned short keys[KEYS * STRIDE], values[KEYS * STRIDE];
  QueryStage stages[2];
};

// The gradients of k and v. Heads of a group are shared among `parts` blocks: where there are several, these leave their
// sums in single precision, partial [2, parts, batch, time, KV_HEADS * HEAD_DIM], for packed_attention_sum. Grid: parts *
// KV_HEADS x batch x blocks of KEYS. Shared memory: a KeysBackward.
extern "C" __global__ void __launch_bounds__(KEY_THREADS, 1)
packed_attention_keys(const unsigned short* gradient, const unsigned short* q, const unsigned short* k,
                      const unsigned short* v, const float* sums, const float* taken, const int* segments,
                      const unsigned* ranges, int time, int parts, unsigned short* toKeys, unsigned short* toValues,
                      float* partial) {
  DYNAMIC_SHARED(KeysBackward, keysBackward);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = lane >> 2, quarter = lane & 3;
  const int kv = blockIdx.x / parts, part = blockIdx.x % parts, row = blockIdx.y, first = blockIdx.z * KEYS;
  const int tiles = (time + TILE - 1) / TILE, mine = first + warp * 16;
  const long long start = (long long)row * time;
  const int step = HEADS * HEAD_DIM, keyStep = KV_HEADS * HEAD_DIM;
  const float scale = LOG2E * rsqrtf(HEAD_DIM);
  const int endHead = kv * GROUP + GROUP * (part + 1) / parts;
  gradient += start * step;
  q += start * step;
  sums += start * HEADS;
  taken += start * HEADS;
  segments += start;
  const long long keyStart = start * keyStep + kv * HEAD_DIM;
  waitForPrevious();
  load<KEYS, KEY_THREADS>(keysBackward->keys, k + keyStart, keyStep, first, time);
  load<KEYS, KEY_THREADS>(keysBackward->values, v + keyStart, keyStep, first, time);
  const uint2* seen = (const uint2*)ranges + (long long)row * tiles;
  const uint2 keys = rangeOf2(seen, first / TILE, tiles);
  auto from = [&](int tile) {
    while (tile < tiles && !sees(seen[tile], keys)) tile++;
    return tile;
  };
  const int firstTile = from(first / TILE);
  const int which = threadIdx.x / TILE, at = threadIdx.x % TILE;
  auto ask = [&](int head, int tile, int stage) {
    if (head < endHead) {
      load<TILE, KEY_THREADS>(keysBackward->stages[stage].queries, q + head * HEAD_DIM, step, tile * TILE, time);
      load<TILE, KEY_THREADS>(keysBackward->stages[stage].gradients, gradient + head * HEAD_DIM, step, tile * TILE, time);
    }
    copyAsyncCommit();
    // Numbers of rows come by way of registers, as rows are not aligned to 16 bytes.
    return head < endHead && which < 2
               ? (which == 0 ? sums : taken)[(long long)head * time + min(tile * TILE + at, time - 1)]
               : 0.0f;
  };
  int head = firstTile < tiles ? kv * GROUP + GROUP * part / parts : endHead, tile = firstTile, stage = 0;
  float ahead = ask(head, tile, 0);
  if (which < 2) keysBackward->stages[0].rows[which][at] = ahead;
  copyAsyncWait<0>();
  __syncthreads();
  // The warp's keys and values.
  unsigned held[2][STEPS][4];
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int s = 0; s < STEPS; s++)
      ldmatrix4(held[i][s], (i == 0 ? keysBackward->keys : keysBackward->values) + (warp * 16 + (lane & 15)) * STRIDE +
                                (lane >> 4) * 8 + s * 16);
  float ofKeys[1][WORDS][4], ofValues[1][WORDS][4];
  clear(ofKeys);
  clear(ofValues);
  while (head < endHead) {
    int nextTile = from(tile + 1), nextHead = head;
    if (nextTile == tiles) {
      nextTile = firstTile;
      nextHead++;
    }
    copyAsyncWait<0>();
    __syncthreads();
    ahead = ask(nextHead, nextTile, stage ^ 1);
    const QueryStage& now = keysBackward->stages[stage];
    const int query = tile * TILE;
    const bool whole = mine + 15 <= query && query + TILE <= time && seesAll(seen[tile], keys);
    if (mine < query + TILE)
#pragma unroll 1
      for (int some = 0; some < TILE; some += AT_ONCE) {
        float shares[1][AT_ONCE / 8][4], changes[1][AT_ONCE / 8][4];
        dotHeld(shares, held[0], now.queries + some * STRIDE, changes, held[1], now.gradients + some * STRIDE);
        if (!whole) {
          int own[2];
#pragma unroll
          for (int h = 0; h < 2; h++) own[h] = segments[min(mine + h * 8 + group, time - 1)];
#pragma unroll
          for (int n = 0; n < AT_ONCE / 8; n++)
#pragma unroll
            for (int c = 0; c < 2; c++) {
              const int column = query + some + n * 8 + quarter * 2 + c, segment = segments[min(column, time - 1)];
#pragma unroll
              for (int h = 0; h < 2; h++)
                if ((mine + h * 8 + group > column) | (column >= time) | ((own[h] != 0) & (segment != own[h])))
                  shares[0][n][2 * h + c] = -INFINITY;
            }
        }
#pragma unroll
        for (int n = 0; n < AT_ONCE / 8; n++) {
          const float2 sum = *(const float2*)&now.rows[0][some + n * 8 + quarter * 2];
          const float2 off = *(const float2*)&now.rows[1][some + n * 8 + quarter * 2];
#pragma unroll
          for (int i = 0; i < 4; i++) {
            shares[0][n][i] = powerOf2(shares[0][n][i] * scale - (i % 2 ? sum.y : sum.x));
            changes[0][n][i] = shares[0][n][i] * (changes[0][n][i] - (i % 2 ? off.y : off.x));
          }
        }
        mix(ofValues, shares, now.gradients + some * STRIDE);
        mix(ofKeys, changes, now.queries + some * STRIDE);
      }
    if (which < 2) keysBackward->stages[stage ^ 1].rows[which][at] = ahead;
    head = nextHead;
    tile = nextTile;
    stage ^= 1;
  }
  copyAsyncWait<0>();
  __syncthreads();
  const float factor = rsqrtf(HEAD_DIM);
  if (parts == 1) {
    store(toKeys + keyStart, keyStep, mine, time, ofKeys, {{factor, factor}}, keysBackward->keys + warp * 16 * STRIDE);
    store(toValues + keyStart, keyStep, mine, time, ofValues, {{1, 1}}, keysBackward->values + warp * 16 * STRIDE);
    return;
  }
  const long long half = (long long)parts * gridDim.y * time * keyStep;
  partial += (long long)part * gridDim.y * time * keyStep + keyStart;
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const int key = mine + h * 8 + group;
    if (key >= time) continue;
    float* to = partial + (long long)key * keyStep + quarter * 2;
#pragma unroll
    for (int n = 0; n < WORDS; n++) {
      *(float2*)(to + n * 8) = make_float2(ofKeys[0][n][2 * h] * factor, ofKeys[0][n][2 * h + 1] * factor);
      *(float2*)(to + half + n * 8) = make_float2(ofValues[0][n][2 * h], ofValues[0][n][2 * h + 1]);
    }
  }
}

// Sums of `parts`, [2, parts, size], as halves: the first for keys, the second for values. Each thread has four of both.
extern "C" __global__ void __launch_bounds__(256)
packed_attention_sum(const float* partial, int parts, int size, unsigned short* toKeys, unsigned short* toValues) {
  waitForPrevious();
  const long long at = (long long)(blockIdx.x * 256 + threadIdx.x) * 4;
  if (at >= size) return;
  for (int half = 0; half < 2; half++) {
    const float* from = partial + (long long)half * parts * size + at;
    float4 sum = *(const float4*)from;
    for (int part = 1; part < parts; part++) {
      const float4 more = *(const float4*)(from + (long long)part * size);
      sum = make_float4(sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w);
    }
    *(uint2*)((half == 0 ? toKeys : toValues) + at) = make_uint2(toHalf2(sum.x, sum.y), toHalf2(sum.z, sum.w));
  }
}
