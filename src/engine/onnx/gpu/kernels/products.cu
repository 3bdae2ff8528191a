// Products of few rows with a large weight, as sampling has them: their time is that of reading the weight once.
//
// Compiled for TILES, the tiles of 8 rows of x that a warp keeps sums of, WARPS of a block, and AHEAD, the pieces of the
// weight that a warp has asked for and not used yet. A block holds its rows of x, or a part of their inner axis, in shared
// memory, and its warps go through tiles of 16 outputs.

// Halves that four lanes read of a row at once. Which of them is the k-th in a product of tensor cores is the same for
// weight and x, and no matter.
#define CHUNK 32

// Outputs as single precision, each part of the inner axis apart; or as halves, gate * sigmoid(gate) * up.
#define PARTS 1
#define GATED 2

__device__ __forceinline__ float silu(float x) { return x / (1.0f + __expf(-x)); }

// x [rows, inner], weight and up [outputs, inner]. Grid: blocks that share the tiles of outputs, blocks of rows, parts of
// the inner axis. Shared memory: 8 * TILES rows of `stride` words of 16 bytes.
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
  const int firstRow = blockIdx.y * TILES * 8;

  // Of a tile, 16 rows of the weight, or 8 of gate and 8 of up, so that one lane gets both of an output.
  const uint4 *low, *high;
  auto aim = [&](int tile) {
    const long long first = min(tile * PER_TILE + group, outputs - 1);
    const long long second = KIND == GATED ? first : min(tile * PER_TILE + group + 8, outputs - 1);
    low = (const uint4*)(weight + first * inner) + from * 4 + quarter;
    high = (const uint4*)((KIND == GATED ? up : weight) + second * inner) + from * 4 + quarter;
  };
  uint4 asked[AHEAD][2];
  int tile = blockIdx.x * WARPS + warp;
  if (tile < tiles) {
    aim(tile);
    // The weight does not depend on what ran before.
#pragma unroll
    for (int a = 0; a < AHEAD; a++)
      if (a < count) {
        asked[a][0] = streamed(low + a * 4);
        asked[a][1] = streamed(high + a * 4);
      }
  }
  waitForPrevious();
  for (int at = threadIdx.x; at < TILES * 8 * count * 4; at += WARPS * 32) {
    const int row = at / (count * 4), word = at % (count * 4);
    const long long source = min(firstRow + row, rows - 1);
    copyAsync16(shared + row * stride + word, (const uint4*)(x + source * inner) + from * 4 + word);
  }
  copyAsyncCommit();
  copyAsyncWait<0>();
  __syncthreads();
  letNextBegin();
  const uint4* mine = shared + group * stride + quarter;

  for (; tile < tiles; tile += step) {
    float sums[TILES][4] = {};
    for (int chunk = 0; chunk < count; chunk += AHEAD) {
      const bool last = chunk + AHEAD >= count;
      const uint4 *nextLow = low + (chunk + AHEAD) * 4, *nextHigh = high + (chunk + AHEAD) * 4;
      if (last && tile + step < tiles) {
        aim(tile + step);
        nextLow = low;
        nextHigh = high;
      }
#pragma unroll
      for (int a = 0; a < AHEAD; a++) {
        if (chunk + a < count) {
#pragma unroll
          for (int j = 0; j < TILES; j++) {
            const uint4 v = mine[j * 8 * stride + (chunk + a) * 4];
            mma(sums[j], {asked[a][0].x, asked[a][1].x, asked[a][0].y, asked[a][1].y}, {v.x, v.y});
            mma(sums[j], {asked[a][0].z, asked[a][1].z, asked[a][0].w, asked[a][1].w}, {v.z, v.w});
          }
        }
        if (last ? tile + step < tiles && a < count : chunk + AHEAD + a < count) {
          asked[a][0] = streamed(nextLow + a * 4);
          asked[a][1] = streamed(nextHigh + a * 4);
        }
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
