// What the threads of a block work out together.

// The sum of `value` over a block's threads, the same in all of them.
__device__ __forceinline__ float sumOfBlock(float value) {
  __shared__ float parts[32];
  for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(0xffffffff, value, step);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  if (lane == 0) parts[warp] = value;
  __syncthreads();
  value = lane < warps ? parts[lane] : 0.0f;
  for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(0xffffffff, value, step);
  return value;
}
