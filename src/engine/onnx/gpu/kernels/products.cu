// Products of few rows with a large weight, as sampling has them: their time is that of reading the weight once.
//
// Compiled for TILES, the tiles of 8 rows of x that a warp keeps sums of, WARPS of a block, AHEAD, the chunks of the weight
// that a warp has asked for and not used yet, an even number, and STRIDE, the words of 16 bytes from one row of x to the next. A block holds its rows of x, or a part of their inner axis, in shared
// memory, and its warps go through tiles of 16 outputs. The weight comes through shared memory too: what is asked for into
// registers is waited for all together.

// Halves that four lanes read of a row at once. Which of them is the k-th in a product of tensor cores is the same for
// weight and x, and no matter.
#define CHUNK 32

// Outputs as single precision, each part of the inner axis apart; or as halves, gate * sigmoid(gate) * up.
#define PARTS 1
#define GATED 2

__device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

// x [rows, inner], weight and up [outputs, inner]. Grid: blocks that share the tiles of outputs, blocks of rows, parts of
// the inner axis. Shared memory: AHEAD chunks of each warp, and 8 * TILES rows of x.
template <int KIND>
__device__ __forceinline__ void product(const unsigned short* __restrict__ x, int rows, int inner,
                                        const unsigned short* __restrict__ weight,
                                        const unsigned short* __restrict__ up, void* __restrict__ out, int outputs) {
  constexpr int PER_TILE = KIND == GATED ? 8 : 16;
  DYNAMIC_SHARED(uint4, shared);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int group = lane >> 2, quarter = lane & 3;
  const int chunks = inner / CHUNK;
  const int from = chunks * blockIdx.z / gridDim.z, count = chunks * (blockIdx.z + 1) / gridDim.z - from;
  const int tiles = (outputs + PER_TILE - 1) / PER_TILE, step = gridDim.x * WARPS;
  const int firstTile = blockIdx.x * WARPS + warp, firstRow = blockIdx.y * TILES * 8;

  // A chunk of a tile is 16 rows of the weight, or 8 of gate and 8 of up, so that one lane gets both of an output. Words
  // of a row change places by its number, so that those of one column lie in other banks.
  uint4* ring = shared + warp * AHEAD * 64;
  uint4* into = ring + group * 4 + (quarter ^ ((group >> 1) & 3));
  const uint4 *low, *high;
  auto aim = [&](int tile) {
    const long long first = min(tile * PER_TILE + group, outputs - 1);
    const long long second = KIND == GATED ? first : min(tile * PER_TILE + group + 8, outputs - 1);
    low = (const uint4*)(weight + first * inner) + from * 4 + quarter;
    high = (const uint4*)((KIND == GATED ? up : weight) + second * inner) + from * 4 + quarter;
  };
  // Chunk a of those ahead, where there is one; a place of the ring belongs to every AHEAD-th chunk of a tile.
  auto ask = [&](int a, bool there) {
    copyAsync16If(there, into + a * 64, low + a * 4);
    copyAsync16If(there, into + a * 64 + 32, high + a * 4);
    copyAsyncCommit();
  };
  aim(firstTile);
  // The weight does not depend on what ran before.
#pragma unroll
  for (int a = 0; a < AHEAD; a++) ask(a, firstTile < tiles && a < count);
  waitForPrevious();
  uint4* held = shared + WARPS * AHEAD * 64;
  // Of a long row the first chunks are waited for alone, and the others while they are multiplied.
  const int early = count > 3 * AHEAD ? 2 * AHEAD : count;
  auto hold = [&](int start, int end) {
    for (int row = warp; row < TILES * 8; row += WARPS) {
      const uint4* source = (const uint4*)(x + (long long)min(firstRow + row, rows - 1) * inner) + from * 4;
      for (int word = start * 4 + lane; word < end * 4; word += 32)
        copyAsync16(held + row * STRIDE + word, source + word);
    }
    copyAsyncCommit();
  };
  hold(0, early);
  hold(early, count);
  copyAsyncWait<1>();
  auto meet = [] { __syncthreads(); };
  meet();
  letNextBegin();
  // Where a lane points for a fragment: of the weight rows 0 to 7 and 8 to 15 of a word, then of the next; of x a row of
  // four words.
  const int ofWeight = (lane & 15) * 4, turned = (lane >> 1) & 3, column = lane >> 4;
  const uint4* ofX = held + (lane & 7) * STRIDE + (lane >> 3);

  // Fragments of a chunk are read while those of the one before are multiplied.
  unsigned weights[2][2][4], xs[2][TILES][4];
  auto fetch = [&](int buffer, int a, const uint4* at) {
    copyAsyncWait<AHEAD - 1>();
    __syncwarp();
    ldmatrix4(weights[buffer][0], ring + a * 64 + ofWeight + (column ^ turned));
    ldmatrix4(weights[buffer][1], ring + a * 64 + ofWeight + ((column + 2) ^ turned));
#pragma unroll
    for (int j = 0; j < TILES; j++) ldmatrix4(xs[buffer][j], at + j * 8 * STRIDE);
  };

  for (int tile = firstTile; tile < tiles; tile += step) {
    float sums[TILES][4] = {};
    const bool more = tile + step < tiles;
    fetch(0, 0, ofX);
    for (int chunk = 0; chunk < count; chunk += AHEAD) {
      // What was asked for before the chunks of this turn has come: the rest of x too.
      if (early < count && chunk == AHEAD && tile == firstTile) meet();
      const bool last = chunk + AHEAD >= count;
      const int left = count - chunk;
      low += AHEAD * 4;
      high += AHEAD * 4;
      if (last && more) aim(tile + step);
#pragma unroll
      for (int a = 0; a < AHEAD; a++) {
        ask(a, last ? more && a < count : a + AHEAD < left);
        if (a >= left) continue;
        // The last of a tile reads what is not used.
        fetch((a + 1) & 1, (a + 1) % AHEAD, ofX + min(chunk + a + 1, count - 1) * 4);
#pragma unroll
        for (int j = 0; j < TILES; j++) mma(sums[j], weights[a & 1][0], {xs[a & 1][j][0], xs[a & 1][j][1]});
#pragma unroll
        for (int j = 0; j < TILES; j++) mma(sums[j], weights[a & 1][1], {xs[a & 1][j][2], xs[a & 1][j][3]});
      }
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
  if (early < count && firstTile >= tiles) {
    copyAsyncWait<0>();
    meet();
  }
}

// out [parts, rows, outputs]
extern "C" __global__ void __launch_bounds__(WARPS * 32, 1)
product_parts(const unsigned short* x, int rows, int inner, const unsigned short* weight, float* out, int outputs) {
  product<PARTS>(x, rows, inner, weight, nullptr, out, outputs);
}

// out [rows, outputs]
extern "C" __global__ void __launch_bounds__(WARPS * 32, 1)
product_gated(const unsigned short* x, int rows, int inner, const unsigned short* gate, const unsigned short* up,
              unsigned short* out, int outputs) {
  product<GATED>(x, rows, inner, gate, up, out, outputs);
}
