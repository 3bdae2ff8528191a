// Products of few rows with a large weight, as sampling has them: their time is that of reading the weight once.
//
// Compiled for TILES, the tiles of 8 rows of x that a warp keeps sums of, and OUTPUT_TILES, its tiles of 16 outputs.
// A block computes 16 * OUTPUT_TILES outputs of 8 * TILES rows over a part of the inner axis, which its WARPS cut again.

// Words of 8 halves: 4 lanes of a warp read 32 halves of a row at once. Which of them is the k-th in a product of
// tensor cores is the same for weight and x, and no matter.
#define CHUNK 32
#define AHEAD 4

// Outputs as halves with a bias; as single precision, each part of the inner axis apart; or as gate * sigmoid(gate) * up.
#define HALVES 0
#define PARTS 1
#define GATED 2

__device__ __forceinline__ float silu(float x) { return x / (1.0f + __expf(-x)); }

// x [rows, inner], weight and up [outputs, inner], bias [outputs] or null. Grid: tiles of outputs, of rows, parts.
template <int KIND>
__device__ __forceinline__ void product(const unsigned short* __restrict__ x, int rows, int inner,
                                        const unsigned short* __restrict__ weight,
                                        const unsigned short* __restrict__ up,
                                        const unsigned short* __restrict__ bias, void* __restrict__ out,
                                        int outputs) {
  constexpr int SUMS = OUTPUT_TILES * TILES * 4;
  constexpr int PER_TILE = KIND == GATED ? 8 : 16;
  __shared__ float shared[WARPS][SUMS][32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int group = lane >> 2, quarter = lane & 3;
  const int firstOutput = blockIdx.x * OUTPUT_TILES * PER_TILE, firstRow = blockIdx.y * TILES * 8;

  const uint4* weights[OUTPUT_TILES][2];
  for (int i = 0; i < OUTPUT_TILES; i++) {
    const int low = min(firstOutput + i * PER_TILE + group, outputs - 1);
    const int high = KIND == GATED ? low : min(low + 8, outputs - 1);
    weights[i][0] = (const uint4*)(weight + (long long)low * inner) + quarter;
    weights[i][1] = (const uint4*)((KIND == GATED ? up : weight) + (long long)high * inner) + quarter;
  }
  const uint4* xs[TILES];
  for (int j = 0; j < TILES; j++)
    xs[j] = (const uint4*)(x + (long long)min(firstRow + j * 8 + group, rows - 1) * inner) + quarter;

  const int parts = gridDim.z * WARPS, part = blockIdx.z * WARPS + warp, chunks = inner / CHUNK;
  const int from = chunks * part / parts, to = chunks * (part + 1) / parts;
  float sums[OUTPUT_TILES][TILES][4] = {};
  uint4 now[AHEAD][OUTPUT_TILES][2];
  auto read = [&](uint4(&into)[AHEAD][OUTPUT_TILES][2], int chunk) {
#pragma unroll
    for (int a = 0; a < AHEAD; a++)
#pragma unroll
      for (int i = 0; i < OUTPUT_TILES; i++)
#pragma unroll
        for (int h = 0; h < 2; h++)
          into[a][i][h] = chunk + a < to ? streamed(weights[i][h] + (chunk + a) * 4) : make_uint4(0, 0, 0, 0);
  };
  // The weight does not depend on what ran before.
  read(now, from);
  waitForPrevious();
  for (int chunk = from; chunk < to; chunk += AHEAD) {
    uint4 next[AHEAD][OUTPUT_TILES][2];
    read(next, chunk + AHEAD);
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
      if (chunk + a >= to) break;
#pragma unroll
      for (int j = 0; j < TILES; j++) {
        const uint4 v = loaded(xs[j] + (chunk + a) * 4);
#pragma unroll
        for (int i = 0; i < OUTPUT_TILES; i++) {
          const uint4 low = now[a][i][0], high = now[a][i][1];
          mma(sums[i][j], {low.x, high.x, low.y, high.y}, {v.x, v.y});
          mma(sums[i][j], {low.z, high.z, low.w, high.w}, {v.z, v.w});
        }
      }
    }
#pragma unroll
    for (int a = 0; a < AHEAD; a++)
#pragma unroll
      for (int i = 0; i < OUTPUT_TILES; i++) {
        now[a][i][0] = next[a][i][0];
        now[a][i][1] = next[a][i][1];
      }
  }
  letNextBegin();

  for (int i = 0; i < OUTPUT_TILES; i++)
    for (int j = 0; j < TILES; j++)
      for (int q = 0; q < 4; q++) shared[warp][(i * TILES + j) * 4 + q][lane] = sums[i][j][q];
  __syncthreads();
  for (int at = threadIdx.x; at < SUMS * 32; at += WARPS * 32) {
    const int sum = at >> 5, of = at & 31, q = sum & 3, j = (sum >> 2) % TILES, i = (sum >> 2) / TILES;
    if (KIND == GATED && q >= 2) continue;
    float value = 0, second = 0;
    for (int w = 0; w < WARPS; w++) {
      value += shared[w][sum][of];
      if (KIND == GATED) second += shared[w][sum + 2][of];
    }
    const int row = firstRow + j * 8 + (of & 3) * 2 + (q & 1);
    const int output = firstOutput + i * PER_TILE + (of >> 2) + (q >= 2 ? 8 : 0);
    if (row >= rows || output >= outputs) continue;
    const long long place = (long long)row * outputs + output;
    if (KIND == HALVES)
      ((unsigned short*)out)[place] = toHalf(value + (bias == nullptr ? 0.0f : fromHalf(bias[output])));
    if (KIND == PARTS) ((float*)out)[(long long)blockIdx.z * rows * outputs + place] = value;
    if (KIND == GATED) ((unsigned short*)out)[place] = toHalf(silu(value) * second);
  }
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
product_halves(const unsigned short* x, int rows, int inner, const unsigned short* weight, const unsigned short* bias,
               unsigned short* out, int outputs) {
  product<HALVES>(x, rows, inner, weight, nullptr, bias, out, outputs);
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
product_parts(const unsigned short* x, int rows, int inner, const unsigned short* weight, float* out, int outputs) {
  product<PARTS>(x, rows, inner, weight, nullptr, nullptr, out, outputs);
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
product_gated(const unsigned short* x, int rows, int inner, const unsigned short* gate, const unsigned short* up,
              unsigned short* out, int outputs) {
  product<GATED>(x, rows, inner, gate, up, nullptr, out, outputs);
}
