// Products of few rows with a large weight, as sampling has them: their time is that of reading the weight once.
//
// Compiled for TILES, the tiles of 8 rows of x that a warp keeps sums of, WARPS of a block, and AHEAD, the chunks of the
// weight that a warp has asked for and not used yet. A block holds its rows of x, or a part of their inner axis, in shared
// memory, and its warps go through tiles of 16 outputs. The weight comes through shared memory too, where each lane finds
// what it asked for itself: what is asked for into registers is waited for all together.

// Halves that four lanes read of a row at once. Which of them is the k-th in a product of tensor cores is the same for
// weight and x, and no matter.
#define CHUNK 32

// Outputs as single precision, each part of the inner axis apart; or as halves, gate * sigmoid(gate) * up.
#define PARTS 1
#define GATED 2

__device__ __forceinline__ float silu(float x) { return x / (1.0f + __expf(-x)); }

// x [rows, inner], weight and up [outputs, inner]. Grid: blocks that share the tiles of outputs, blocks of rows, parts of
// the inner axis. Shared memory: AHEAD chunks of each warp, and 8 * TILES rows of `stride` words of 16 bytes.
template <int KIND>
__device__ __forceinline__ void product(const unsigned short* __restrict__ x, int rows, int inner,
                                        const unsigned short* __restrict__ weight,
                                        const unsigned short* __restrict__ up, void* __restrict__ out, int outputs,
                                        int stride) {
  constexpr int PER_TILE = KIND == GATED ? 8 : 16;
  DYNAMIC_SHARED(uint4, shared);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int group = lane >> 2, quarter = lane & 3;
  const int chunks = inner / CHUNK;
  const int from = chunks * blockIdx.z / gridDim.z, count = chunks * (blockIdx.z + 1) / gridDim.z - from;
  const int tiles = (outputs + PER_TILE - 1) / PER_TILE, step = gridDim.x * WARPS;
  const int firstTile = blockIdx.x * WARPS + warp, firstRow = blockIdx.y * TILES * 8;

  // A chunk of a tile is 16 rows of the weight, or 8 of gate and 8 of up, so that one lane gets both of an output.
  uint4* ring = shared + warp * AHEAD * 64 + lane;
  const uint4 *low, *high;
  auto aim = [&](int tile) {
    const long long first = min(tile * PER_TILE + group, outputs - 1);
    const long long second = KIND == GATED ? first : min(tile * PER_TILE + group + 8, outputs - 1);
    low = (const uint4*)(weight + first * inner) + from * 4 + quarter;
    high = (const uint4*)((KIND == GATED ? up : weight) + second * inner) + from * 4 + quarter;
  };
  int askedTile = firstTile, askedChunk = 0, slot = 0;
  aim(askedTile);
  auto ask = [&](int into) {
    if (askedTile < tiles || askedTile == firstTile) {
      copyAsync16(ring + into * 64, low + askedChunk * 4);
      copyAsync16(ring + into * 64 + 32, high + askedChunk * 4);
      if (++askedChunk == count) {
        askedChunk = 0;
        askedTile += step;
        if (askedTile < tiles) aim(askedTile);
      }
    }
    copyAsyncCommit();
  };
  // The weight does not depend on what ran before.
  for (int a = 0; a < AHEAD; a++) ask(a);
  waitForPrevious();
  uint4* held = shared + WARPS * AHEAD * 64;
  // Of a long row the first quarter is waited for alone, and the others while it is multiplied.
  const int pieces = count >= 4 * AHEAD ? 4 : 1;
  for (int p = 0; p < 4; p++) {
    const int start = count * p / pieces, words = (count * (p + 1) / pieces - start) * 4;
    if (p < pieces)
      for (int at = threadIdx.x; at < TILES * 8 * words; at += WARPS * 32) {
        const int row = at / words, word = start * 4 + at % words;
        const long long source = min(firstRow + row, rows - 1);
        copyAsync16(held + row * stride + word, (const uint4*)(x + source * inner) + from * 4 + word);
      }
    copyAsyncCommit();
  }
  copyAsyncWait<3>();
  __syncthreads();
  letNextBegin();
  const uint4* mine = held + group * stride + quarter;

  // A warp too many goes along with the first tile, whose rows are waited for by all.
  int piece = 1;
  for (int tile = firstTile; tile < tiles || tile == firstTile; tile += step) {
    float sums[TILES][4] = {};
    for (int chunk = 0; chunk < count; chunk++) {
      copyAsyncWait<AHEAD - 1>();
      if (piece < pieces && chunk == count * piece / pieces) {
        __syncthreads();
        piece++;
      }
      const uint4 first = ring[slot * 64], second = ring[slot * 64 + 32];
      uint4 v[TILES];
#pragma unroll
      for (int j = 0; j < TILES; j++) v[j] = mine[j * 8 * stride + chunk * 4];
#pragma unroll
      for (int j = 0; j < TILES; j++) mma(sums[j], {first.x, second.x, first.y, second.y}, {v[j].x, v[j].y});
#pragma unroll
      for (int j = 0; j < TILES; j++) mma(sums[j], {first.z, second.z, first.w, second.w}, {v[j].z, v[j].w});
      ask(slot);
      slot = slot + 1 == AHEAD ? 0 : slot + 1;
    }
#pragma unroll
    for (int j = 0; j < TILES; j++)
#pragma unroll
      for (int q = 0; q < (KIND == GATED ? 2 : 4); q++) {
        const int row = firstRow + j * 8 + quarter * 2 + (q & 1);
        const int output = tile * PER_TILE + group + (q >= 2 ? 8 : 0);
        if (row >= rows || output >= outputs) continue;
        if (KIND == PARTS)
          ((float*)out)[((long long)blockIdx.z * rows + row) * outputs + output] = sums[j][q];
        if (KIND == GATED)
          ((unsigned short*)out)[(long long)row * outputs + output] = toHalf(silu(sums[j][q]) * sums[j][q + 2]);
      }
  }
}

// out [parts, rows, outputs]
extern "C" __global__ void __launch_bounds__(WARPS * 32)
product_parts(const unsigned short* x, int rows, int inner, const unsigned short* weight, float* out, int outputs,
              int stride) {
  product<PARTS>(x, rows, inner, weight, nullptr, out, outputs, stride);
}

// out [rows, outputs]
extern "C" __global__ void __launch_bounds__(WARPS * 32)
product_gated(const unsigned short* x, int rows, int inner, const unsigned short* gate, const unsigned short* up,
              unsigned short* out, int outputs, int stride) {
  product<GATED>(x, rows, inner, gate, up, out, outputs, stride);
}
