// What happens to rows between products: embedding, residual and norm, rotary positions.

// Rows of the embedding [vocabulary, size] that the tokens drawn last ask for. A block a row. The first to run in a step
// after tokens were drawn, it counts the step: `at` is the number of tokens drawn since.
extern "C" __global__ void embed(const unsigned short* table, const int* tokens, float* stream, int size, int* at) {
  letNextBegin();
  waitForPrevious();
  if (blockIdx.x == 0 && threadIdx.x == 0) *at += 1;
  const long long token = tokens[blockIdx.x];
  for (int i = threadIdx.x; i < size; i += blockDim.x)
    stream[(long long)blockIdx.x * size + i] = fromHalf(table[token * size + i]);
}

// The sum of parts [count, ...], a stride apart, at four places.
__device__ __forceinline__ float4 sumOfParts(const float* parts, int count, long long stride) {
  float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
  for (int p = 0; p < count; p++) {
    const float4 v = *(const float4*)(parts + p * stride);
    sum.x += v.x;
    sum.y += v.y;
    sum.z += v.z;
    sum.w += v.w;
  }
  return sum;
}

// stream [rows, size] += the sum of parts [count, rows, size], and its RMSNorm by weight as halves. A block a row, with
// `size` floats of shared memory.
extern "C" __global__ void add_norm(float* stream, const float* parts, int count, const float* weight,
                                    unsigned short* normed, int size, float epsilon) {
  DYNAMIC_SHARED(float, row);
  letNextBegin();
  waitForPrevious();
  const long long start = (long long)blockIdx.x * size, stride = (long long)gridDim.x * size;
  float squares = 0;
  for (int i = 4 * threadIdx.x; i < size; i += 4 * blockDim.x) {
    const float4 more = sumOfParts(parts + start + i, count, stride);
    float4 value = *(float4*)(stream + start + i);
    value = make_float4(value.x + more.x, value.y + more.y, value.z + more.z, value.w + more.w);
    *(float4*)(row + i) = value;
    squares += value.x * value.x + value.y * value.y + value.z * value.z + value.w * value.w;
  }
  const float inverse = rsqrtf(sumOfBlock(squares) / size + epsilon);
  for (int i = 4 * threadIdx.x; i < size; i += 4 * blockDim.x) {
    const float4 value = *(float4*)(row + i), scale = *(const float4*)(weight + i);
    if (count > 0) *(float4*)(stream + start + i) = value;
    *(uint2*)(normed + start + i) = make_uint2(toHalf2(value.x * inverse * scale.x, value.y * inverse * scale.y),
                                               toHalf2(value.z * inverse * scale.z, value.w * inverse * scale.w));
  }
}

#define WIDE_ROW ((HEADS + 2 * KV_HEADS) * HEAD_DIM)

// q, k and v of a row, of which parts [count, rows, WIDE_ROW] are given and a bias or null: q and k are normed by head where
// there are weights for it and turned by their position, and q is multiplied by `scale`; k and v go to the caches, keys
// [rows, KV_HEADS, window, HEAD_DIM], values [rows, KV_HEADS, HEAD_DIM, window]. A block a row.
extern "C" __global__ void turn(const float* parts, int count, const unsigned short* bias, const float* qNorm,
                                const float* kNorm, float epsilon, const float* cosines, const float* sines,
                                const int* promptOf, const int* promptLengths, const int* at, float scale,
                                unsigned short* q, unsigned short* keys, unsigned short* values, int window) {
  constexpr int HALF = HEAD_DIM / 2, EACH = (HALF + 31) / 32;
  __shared__ __align__(16) float whole[WIDE_ROW];
  const int lane = threadIdx.x & 31, row = blockIdx.x;
  letNextBegin();
  waitForPrevious();
  const int own = *at - 1;
  const long long position = promptLengths[promptOf[row]] + own;
  for (int i = 4 * threadIdx.x; i < WIDE_ROW; i += 4 * blockDim.x) {
    float4 sum = sumOfParts(parts + (long long)row * WIDE_ROW + i, count, (long long)gridDim.x * WIDE_ROW);
    if (bias != nullptr) {
      const uint2 more = *(const uint2*)(bias + i);
      const float2 low = fromHalf2(more.x), high = fromHalf2(more.y);
      sum = make_float4(sum.x + low.x, sum.y + low.y, sum.z + high.x, sum.w + high.y);
    }
    *(float4*)(whole + i) = sum;
  }
  __syncthreads();
  for (int head = threadIdx.x >> 5; head < HEADS + 2 * KV_HEADS; head += blockDim.x >> 5) {
    const float* from = whole + head * HEAD_DIM;
    if (head >= HEADS + KV_HEADS) {
      unsigned short* to = values + ((long long)row * KV_HEADS + head - HEADS - KV_HEADS) * HEAD_DIM * window + own;
      for (int i = lane; i < HEAD_DIM; i += 32) to[(long long)i * window] = toHalf(from[i]);
      continue;
    }
    const bool isQuery = head < HEADS;
    const float* norm = isQuery ? qNorm : kNorm;
    float first[EACH], second[EACH], squares = 0;
    for (int e = 0; e < EACH; e++) {
      const int i = lane + 32 * e;
      first[e] = i < HALF ? from[i] : 0.0f;
      second[e] = i < HALF ? from[i + HALF] : 0.0f;
      squares += first[e] * first[e] + second[e] * second[e];
    }
    if (norm != nullptr) {
      for (int step = 16; step > 0; step >>= 1) squares += __shfl_xor_sync(0xffffffff, squares, step);
      const float inverse = rsqrtf(squares / HEAD_DIM + epsilon);
      for (int e = 0; e < EACH; e++) {
        const int i = lane + 32 * e;
        if (i < HALF) {
          first[e] *= inverse * norm[i];
          second[e] *= inverse * norm[i + HALF];
        }
      }
    }
    unsigned short* to = isQuery ? q + ((long long)row * HEADS + head) * HEAD_DIM
                                 : keys + (((long long)row * KV_HEADS + head - HEADS) * window + own) * HEAD_DIM;
    const float factor = isQuery ? scale : 1.0f;
    for (int e = 0; e < EACH; e++) {
      const int i = lane + 32 * e;
      if (i >= HALF) continue;
      const float cosine = cosines[position * HALF + i], sine = sines[position * HALF + i];
      to[i] = toHalf((first[e] * cosine - second[e] * sine) * factor);
      to[i + HALF] = toHalf((second[e] * cosine + first[e] * sine) * factor);
    }
  }
}
