import { afterAll, describe, expect, it } from 'vitest'
import { compileForHost, type HostKernels, hasCompiler } from './emulator.ts'

const skipped = !hasCompiler()
if (skipped) console.warn('kernels are not tested: that needs g++ on x86-64 Linux')

const source = `
extern "C" __global__ void where(unsigned* out, unsigned* order) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned at = block * blockDim.x * blockDim.y * blockDim.z + thread;
  out[at] = threadIdx.x | threadIdx.y << 4 | threadIdx.z << 8 | blockIdx.x << 12 | blockIdx.y << 16 | blockIdx.z << 20;
  if (thread == 0) order[atomicAdd(&order[0], 1u) + 1] = block;
}

extern "C" __global__ void types(float* out, int i, unsigned u, float f, long long l, const float* none) {
  out[0] = i; out[1] = u >> 16; out[2] = f; out[3] = l >> 32; out[4] = none == nullptr;
}

// The sum of a block's values; threads beyond n return before any barrier of their own.
extern "C" __global__ void __launch_bounds__(256, 2) total(const float* __restrict__ x, float* out, int n) {
  DYNAMIC_SHARED(float, values);
  __shared__ float whole;
  const int at = blockIdx.x * blockDim.x + threadIdx.x, live = min(n - int(blockIdx.x * blockDim.x), int(blockDim.x));
  if (at >= n) return;
  values[threadIdx.x] = x[at];
  __syncthreads();
  for (int size = live; size > 1; size = (size + 1) / 2) {
    const int half = (size + 1) / 2;
    if (int(threadIdx.x) + half < size) values[threadIdx.x] += values[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) whole = values[0];
  __syncthreads();
  out[at] = whole;
}

extern "C" __global__ void unwritten(float* out) {
  __shared__ float still[32];
  DYNAMIC_SHARED(float, moving);
  out[threadIdx.x] = threadIdx.x % 2 ? still[threadIdx.x] : moving[threadIdx.x];
  still[threadIdx.x] = moving[threadIdx.x] = 1;
}

template <class T>
__device__ __forceinline__ T sum(T v) {
  for (int with = 16; with; with >>= 1) v += __shfl_xor_sync(0xffffffffu, v, with);
  return v;
}
extern "C" __global__ void shuffles(float* f, int* i, unsigned long long* l, unsigned* u) {
  const int lane = threadIdx.x % 32, t = threadIdx.x;
  f[t] = sum(float(t)) + __shfl_sync(~0u, float(lane), 3);
  i[t] = __shfl_up_sync(~0u, t, 2);
  i[t] += 1000 * __shfl_down_sync(~0u, t, 5);
  l[t] = __shfl_sync(~0u, (unsigned long long)t << 40, lane + 1);
  u[t] = __shfl_xor_sync(~0u, unsigned(t), 4, 8) + 1000 * __shfl_sync(~0u, unsigned(t), 1, 8);
}
extern "C" __global__ void votes(unsigned* ballot, int* any, int* some) {
  const int t = threadIdx.x, lane = t % 32;
  ballot[t] = __ballot_sync(~0u, t % 3 == 0);
  any[t] = __any_sync(~0u, t == 40) + 2 * __all_sync(~0u, t < 32);
  some[t] = 0;
  // Halves of a warp meet apart, and one of them more often.
  if (lane < 16) for (int i = 0; i < 3; i++) some[t] += __shfl_xor_sync(0xffffu, t, 8);
  else some[t] = __shfl_xor_sync(0xffff0000u, t, 8);
  __syncwarp();
}

extern "C" __global__ void atomics(int* i, unsigned* u, unsigned long long* l, float* f) {
  const int t = threadIdx.x + blockIdx.x * blockDim.x;
  atomicAdd(&i[0], t); atomicMax(&i[1], t); atomicMin(&i[2], -t);
  atomicAdd(&u[0], 1u); atomicMax(&u[1], unsigned(t)); atomicMin(&u[2], unsigned(t));
  atomicAdd(l, 1ull << 32); atomicAdd(f, 0.5f);
}

extern "C" __global__ void product(const unsigned short* a, const unsigned short* b, const float* c, float* d) {
  const int lane = threadIdx.x, group = lane / 4, at = lane % 4 * 2;
  auto A = [&](int row, int k) { return unsigned(a[row * 16 + k]) | unsigned(a[row * 16 + k + 1]) << 16; };
  auto B = [&](int k, int column) { return unsigned(b[k * 8 + column]) | unsigned(b[(k + 1) * 8 + column]) << 16; };
  const unsigned left[4] = {A(group, at), A(group + 8, at), A(group, at + 8), A(group + 8, at + 8)};
  const unsigned right[2] = {B(at, group), B(at + 8, group)};
  float sums[4];
  for (int i = 0; i < 4; i++) sums[i] = c[(group + i / 2 * 8) * 8 + at + i % 2];
  mma(sums, left, right);
  for (int i = 0; i < 4; i++) d[(group + i / 2 * 8) * 8 + at + i % 2] = sums[i];
}

// 16 x 16 by 16 x 8 from shared memory: A as it lies, B [k][column] transposed as it is loaded.
extern "C" __global__ void tile(const unsigned short* a, const unsigned short* b, float* d) {
  __shared__ __align__(16) unsigned short left[16][16];
  __shared__ __align__(16) unsigned short right[16][16];
  const int lane = threadIdx.x;
  copyAsync16(&left[lane / 2][lane % 2 * 8], a + lane * 8);
  copyAsyncCommit();
  if (lane < 16) copyAsync16(&right[lane][0], b + lane * 8);
  copyAsyncCommit();
  copyAsyncWait<0>();
  __syncthreads();
  unsigned x[4], y[4];
  ldmatrix4(x, &left[lane % 16][lane / 16 * 8]);
  ldmatrix4Transposed(y, &right[lane % 16][0]);
  float sums[4] = {0, 0, 0, 0};
  mma(sums, x, {y[0], y[1]});
  for (int i = 0; i < 4; i++) d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
}
extern "C" __global__ void early(const unsigned short* a, unsigned short* out) {
  __shared__ __align__(16) unsigned short to[2][8];
  copyAsync16(to[0], a);
  copyAsyncCommit();
  copyAsync16(to[1], a + 8);
  copyAsyncCommit();
  copyAsyncWait<1>();
  out[0] = to[0][1];
  out[1] = to[1][1];
}

extern "C" __global__ void halves(const float* x, unsigned short* h, float* back, unsigned* pair, float* both) {
  const int t = threadIdx.x;
  h[t] = toHalf(x[t]);
  back[t] = fromHalf(h[t]);
  pair[t] = toHalf2(x[t], 1);
  both[t] = fromHalf2(pair[t]).x + fromHalf2(pair[t]).y;
}

extern "C" __global__ void mathematics(float* out) {
  out[0] = rsqrtf(4); out[1] = __expf(0); out[2] = exp2f(3); out[3] = max(1.f, 2.f) + min(3u, 5u) + max(2ll, 9ll);
  out[4] = __fdividef(1, 4); out[5] = -INFINITY; out[6] = __uint_as_float(__float_as_uint(1.5f)); out[7] = fmaxf(NAN, 1);
  uint4 v = make_uint4(1, 2, 3, 4); out[8] = v.w; waitForPrevious(); letNextBegin();
}

extern "C" __global__ void lost(float* out) {
  float v = 1;
  if (threadIdx.x < 20) v = __shfl_xor_sync(~0u, v, 1);
  out[threadIdx.x] = v;
}
extern "C" __global__ void apart(float* out) {
  float v = 1;
  if (threadIdx.x % 2) v = __shfl_xor_sync(~0u, v, 1);
  else __syncwarp();
  out[threadIdx.x] = v;
}
extern "C" __global__ void atBarrier(float* out) {
  if (threadIdx.x == 5) __syncthreads();
  else __syncwarp();
}
extern "C" __global__ void barriers() {
  if (threadIdx.x < 32) __syncthreads();
  else
    __syncthreads();
}
extern "C" __global__ void few() {
  float sums[4] = {};
  mma(sums, {1, 2, 3, 4}, {1, 2});
}
extern "C" __global__ void stranger(float* out) {
  if (threadIdx.x < 8) out[threadIdx.x] = __shfl_down_sync(0xffu, 1.f, 1);
}
extern "C" __global__ void beyond(float* out, const float* in, int n) {
  out[threadIdx.x] = in[threadIdx.x + n];
}
extern "C" __global__ void stains(float* out) { if (threadIdx.x == 0) out[-1] = 1; }
extern "C" __global__ void sharedBeyond(float* out, int n) {
  DYNAMIC_SHARED(float, values);
  out[0] = values[n];
}
extern "C" __global__ void sharedStain(int n) {
  DYNAMIC_SHARED(float, values);
  values[n] = 1;
}
extern "C" __global__ void misaligned(float* out, int n) {
  out[0] = reinterpret_cast<const float4*>(out + n)->x;
}
extern "C" __global__ void outside(float* out, int n) {
  __shared__ float eight[8];
  eight[n] = 1;
  out[0] = eight[n];
}
extern "C" __global__ void byZero(int* out, int n) { out[0] = 7 / n; }
extern "C" __global__ void endless(volatile int* out) { while (out[0] == 0) {} }
extern "C" __global__ void race(float* out) {
  __shared__ float values[64];
  values[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = values[threadIdx.x / 32 * 32];
  if (threadIdx.x >= 32) out[threadIdx.x] = values[0];
}
extern "C" __global__ void many(float* out, int rounds) {
  float v = threadIdx.x;
  for (int i = 0; i < rounds; i++) v = v * 0.5f + __shfl_xor_sync(~0u, v, 1 << i % 5);
  out[threadIdx.x] = v;
}
extern "C" __global__ void grows(const int* in, int* out) { out[threadIdx.x] = in[threadIdx.x] + 1; }
`

/** Numbers that are halves and repeat. */
function* numbers(): Generator<number> {
  for (let state = 1; ; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    yield Math.round((state / 2 ** 32 - 0.5) * 512) / 256
  }
}

/** Of a number that a normal half holds. */
function half(x: number): number {
  if (x === 0) return 0
  const exponent = Math.floor(Math.log2(Math.abs(x)))
  return (x < 0 ? 0x8000 : 0) | ((exponent + 15) << 10) | ((Math.abs(x) / 2 ** exponent - 1) * 1024)
}

describe.skipIf(skipped)('kernels on the CPU', async () => {
  const kernels: HostKernels = skipped
    ? { names: [], launch() {}, allocate: never }
    : await compileForHost(source)
  const refused = (
    name: string,
    shape: Parameters<HostKernels['launch']>[1],
    args: Parameters<HostKernels['launch']>[2],
  ) => {
    try {
      kernels.launch(name, shape, args)
    } catch (error) {
      return (error as Error).message
    }
    return ''
  }
  const lineOf = (text: string, after: string) =>
    source.slice(0, source.indexOf(text, source.indexOf(after))).split('\n').length
  const one = { grid: [1], block: [32] } as const
  const two = { grid: [1], block: [64] } as const

  it('know where each thread is, and run blocks in their order', () => {
    for (const backwards of [false, true]) {
      const out = new Uint32Array(2 * 3 * 2 * (3 * 2 * 2))
      const order = new Uint32Array(13)
      kernels.launch('where', { grid: [2, 3, 2], block: [3, 2, 2], backwards }, [out, order])
      const expected: number[] = []
      for (let b = 0; b < 12; b++)
        for (let t = 0; t < 12; t++) {
          const thread = (t % 3) | ((Math.floor(t / 3) % 2) << 4) | (Math.floor(t / 6) << 8)
          const block = (b % 2) | ((Math.floor(b / 2) % 3) << 4) | (Math.floor(b / 6) << 8)
          expected.push(thread | (block << 12))
        }
      expect([...out]).toEqual(expected)
      const blocks = Array.from({ length: 12 }, (_, i) => (backwards ? 11 - i : i))
      expect([...order]).toEqual([12, ...blocks])
    }
  })

  it('take arguments of every type', () => {
    const out = new Float32Array(5)
    const args = [{ int: -7 }, { int: 2 ** 32 - 1 }, { float: 0.25 }, { long: -(3n << 32n) }, { pointer: 0n }]
    kernels.launch('types', one, [out, ...args])
    expect([...out]).toEqual([-7, 65535, 0.25, -3, 1])
  })

  it('share memory between barriers, which threads that have returned do not hold up', () => {
    for (const backwards of [false, true]) {
      const n = 611
      const x = Float32Array.from({ length: n }, (_, i) => i % 17)
      const out = new Float32Array(n)
      kernels.launch('total', { grid: [3], block: [256], shared: 1024, backwards }, [x, out, { int: n }])
      for (let block = 0; block < 3; block++) {
        const sum = x.slice(256 * block, 256 * (block + 1)).reduce((a, b) => a + b)
        expect(new Set(out.slice(256 * block, 256 * (block + 1)))).toEqual(new Set([sum]))
      }
    }
  })

  it('read NaN from shared memory that the block has not written', () => {
    const out = new Float32Array(32)
    for (let i = 0; i < 2; i++) {
      kernels.launch('unwritten', { grid: [2], block: [32], shared: 128 }, [out])
      expect(out.every(Number.isNaN)).toBe(true)
    }
  })

  it('shuffle', () => {
    const [f, i, l, u] = [
      new Float32Array(64),
      new Int32Array(64),
      new BigUint64Array(64),
      new Uint32Array(64),
    ]
    for (const backwards of [false, true]) {
      kernels.launch('shuffles', { ...two, backwards }, [f, i, l, u])
      for (let t = 0; t < 64; t++) {
        const first = t & 32
        const lane = t % 32
        expect(f[t]).toBe(32 * first + 496 + 3)
        expect(i[t]).toBe((lane < 2 ? t : t - 2) + 1000 * (lane > 26 ? t : t + 5))
        expect(l[t]).toBe(BigInt(first + ((lane + 1) % 32)) << 40n)
        expect(u[t]).toBe((t ^ 4) + 1000 * ((t & ~7) + 1))
      }
    }
  })

  it('vote, and meet in parts of a warp', () => {
    const [ballot, any, some] = [new Uint32Array(64), new Int32Array(64), new Int32Array(64)]
    kernels.launch('votes', two, [ballot, any, some])
    for (let t = 0; t < 64; t++) {
      let bits = 0
      for (let lane = 0; lane < 32; lane++) if (((t & 32) + lane) % 3 === 0) bits |= 1 << lane
      expect(ballot[t]).toBe(bits >>> 0)
      expect(any[t]).toBe(t < 32 ? 2 : 1)
      expect(some[t]).toBe((t ^ 8) * (t % 32 < 16 ? 3 : 1))
    }
  })

  it('change memory atomically', () => {
    const [i, u] = [Int32Array.of(0, -9, 9), Uint32Array.of(0, 0, 99)]
    const [l, f] = [new BigUint64Array(1), new Float32Array(1)]
    kernels.launch('atomics', { grid: [2], block: [64] }, [i, u, l, f])
    expect([...i, ...u]).toEqual([127 * 64, 127, -127, 128, 127, 0])
    expect([l[0], f[0]]).toEqual([128n << 32n, 64])
  })

  it('multiply tiles as mma does, and as ldmatrix lays them out', () => {
    const random = numbers()
    const next = () => random.next().value as number
    const a = Array.from({ length: 256 }, next)
    const b = Array.from({ length: 128 }, next)
    const c = Array.from({ length: 128 }, next)
    const product = (sums: readonly number[]) =>
      sums.map((sum, i) => {
        for (let k = 0; k < 16; k++) sum += a[(i >> 3) * 16 + k] * b[k * 8 + (i & 7)]
        return sum
      })
    const [ha, hb] = [Uint16Array.from(a, half), Uint16Array.from(b, half)]
    const d = new Float32Array(128)
    kernels.launch('product', one, [ha, hb, Float32Array.from(c), d])
    // Numbers of so few bits make sums that are exact in single precision.
    expect([...d]).toEqual(product(c))
    for (const backwards of [false, true]) {
      d.fill(0)
      kernels.launch('tile', { ...one, backwards }, [ha, hb, d])
      expect([...d]).toEqual(product(c.map(() => 0)))
    }
  })

  it('have what they copied asynchronously once they have waited for it', () => {
    const out = new Uint16Array(2)
    kernels.launch('early', { grid: [1], block: [1] }, [Uint16Array.from({ length: 16 }, (_, i) => i), out])
    expect([...out]).toEqual([1, 0xffff])
  })

  it('round to halves', () => {
    const step = 2 ** -10
    const tiny = 2 ** -24
    const cases: [number, number][] = [
      [0, 0],
      [-0, 0x8000],
      [1, 0x3c00],
      [-2, 0xc000],
      [1 + step / 2, 0x3c00],
      [1 + 1.5 * step, 0x3c02],
      [1 + 0.51 * step, 0x3c01],
      [tiny, 1],
      [tiny / 2, 0],
      [1.5 * tiny, 2],
      [-3 * tiny, 0x8003],
      [2 ** -14 - tiny, 0x3ff],
      [65504, 0x7bff],
      [65519, 0x7bff],
      [65520, 0x7c00],
      [Infinity, 0x7c00],
      [-Infinity, 0xfc00],
      [Number.NaN, 0x7fff],
    ]
    const n = cases.length
    const [h, pair] = [new Uint16Array(n), new Uint32Array(n)]
    const [back, both] = [new Float32Array(n), new Float32Array(n)]
    const x = Float32Array.from(cases, ([value]) => value)
    kernels.launch('halves', { grid: [1], block: [n] }, [x, h, back, pair, both])
    cases.forEach(([value, bits], i) => {
      expect([value, h[i]]).toEqual([value, bits])
      expect([value, pair[i]]).toEqual([value, (bits | 0x3c000000) >>> 0])
      const magnitude = bits & 0x7fff
      const [exponent, fraction] = [magnitude >> 10, magnitude & 1023]
      const normal =
        exponent === 31 ? (fraction ? Number.NaN : Infinity) : 2 ** (exponent - 25) * (1024 + fraction)
      expect(back[i]).toBe((bits & 0x8000 ? -1 : 1) * (exponent ? normal : fraction * tiny))
      expect(both[i]).toBe(Math.fround(back[i] + 1))
    })
  })

  it('calculate', () => {
    const out = new Float32Array(9)
    kernels.launch('mathematics', { grid: [1], block: [1] }, [out])
    expect([...out]).toEqual([0.5, 1, 8, 14, 0.25, -Infinity, 1.5, 1, 4])
  })

  it('say where lanes part at a collective', () => {
    const out = new Float32Array(64)
    const shuffle = lineOf('__shfl', 'void lost')
    expect(refused('lost', one, [out])).toBe(
      `kernel lost, block (0, 0, 0): lanes 0xfffff of warp 0 wait at __shfl_xor_sync in line ${shuffle} ` +
        'for lane 20, which has returned, lane 21, which has returned, lane 22, which has returned, ' +
        'lane 23, which has returned and others',
    )
    expect(refused('apart', one, [out])).toBe(
      `kernel apart, block (0, 0, 0), thread (1, 0, 0): comes to __shfl_xor_sync in line ${lineOf('__shfl', 'void apart')}, ` +
        `but lanes 0x1 of its warp wait for it at __syncwarp in line ${lineOf('__syncwarp', 'void apart')}`,
    )
    expect(refused('atBarrier', one, [out])).toContain(
      `for lane 5, which waits at __syncthreads in line ${lineOf('__syncthreads', 'void atBarrier')}`,
    )
    expect(refused('barriers', two, [])).toContain('thread (32, 0, 0): comes to __syncthreads in line')
    expect(refused('stranger', one, [out])).toContain('gives lane 7 the value of lane 8, which takes no part')
    expect(refused('few', { grid: [1], block: [8] }, [])).toContain('mma needs a whole warp')
    // Nothing is left of it for the next launch.
    kernels.launch('unwritten', { grid: [1], block: [32], shared: 128 }, [out])
  })

  it('say who goes beyond memory, and where', () => {
    const [out, eight] = [new Float32Array(32), new Float32Array(8)]
    expect(refused('beyond', one, [out, eight, { int: 0 }])).toBe(
      'kernel beyond, block (0, 0, 0), thread (8, 0, 0): reads or writes memory that is not its own, ' +
        `in line ${lineOf('out[threadIdx.x]', 'void beyond')}: 0 bytes past the end of in, which has 32`,
    )
    expect(refused('beyond', one, [out, eight, { int: -4096 }])).toMatch(/not its own/)
    expect(refused('stains', one, [out])).toBe('kernel stains writes around the memory of out')
    expect(refused('sharedBeyond', { ...one, shared: 128 }, [out, { int: 32 }])).toContain(
      'goes beyond the dynamic shared memory',
    )
    expect(refused('sharedStain', { ...one, shared: 64 }, [{ int: 16 }])).toContain(
      'writes outside of the dynamic shared memory of 64 bytes',
    )
    expect(refused('sharedStain', { ...one, shared: 64 }, [{ int: -1 }])).toContain('writes outside')
    expect(refused('misaligned', one, [out, { int: 1 }])).toContain(`not aligned`)
    expect(refused('outside', one, [out, { int: 8 }])).toContain(
      `an index outside of its array, an address that its type is not aligned to, or a shift by too many bits, in line ${lineOf('eight[n] = 1', 'void outside')}`,
    )
    expect(refused('byZero', one, [new Int32Array(1), { int: 0 }])).toContain('divides an integer by zero')
    expect(refused('grows', one, [0n, new Int32Array(32)])).toContain('a null pointer')
    const text = refused('endless', { ...one, seconds: 1 }, [new Int32Array(1)])
    expect(text).toContain(`does not end, in line ${lineOf('while', 'void endless')}`)
  })

  it('show by running backwards that a barrier is missing', () => {
    const out = new Float32Array(64)
    kernels.launch('race', two, [out])
    expect(out.every((value) => value === 0 || value === 32)).toBe(true)
    kernels.launch('race', { ...two, backwards: true }, [out])
    expect(out[40]).toBeNaN()
  })

  it('refuse what they are not', () => {
    expect(refused('nobody', one, [])).toMatch(/^there is no kernel nobody: there is where, types, total/)
    expect(refused('beyond', one, [new Float32Array(1)])).toBe(
      'kernel beyond takes 3 arguments (out, in, n), not 1',
    )
    const out = new Float32Array(1)
    expect(refused('beyond', one, [out, out, { float: 1 }])).toBe(
      'argument 3 (n) of kernel beyond is an int, not a float',
    )
    expect(refused('beyond', one, [out, { int: 3 }, { int: 1 }])).toBe(
      'argument 2 (in) of kernel beyond is a pointer, not an int',
    )
    expect(refused('beyond', one, [out, out, { int: 2 ** 31 }])).toContain('not 2147483648')
    expect(refused('total', { grid: [1], block: [512] }, [out, out, { int: 1 }])).toContain(
      'there may be 256',
    )
    expect(refused('stains', { grid: [1], block: [2048] }, [out])).toContain('a block of 2048 x 1 x 1')
    expect(refused('stains', { ...one, shared: 1 << 20 }, [out])).toContain('bytes of dynamic shared memory')
  })

  describe('over memory of their own', () => {
    const memory = skipped ? undefined : kernels.allocate(128)
    afterAll(() => memory?.free())
    it('read and write it, and arrays that share a buffer share it', () => {
      const numbers = new Int32Array(memory!.bytes.buffer, memory!.bytes.byteOffset, 32)
      expect(numbers[7]).toBe(-1)
      numbers.fill(1)
      kernels.launch('grows', one, [memory!.pointer, { pointer: memory!.pointer }])
      expect([...numbers]).toEqual(Array(32).fill(2))
      expect(refused('grows', one, [memory!.pointer + 4n, new Int32Array(32)])).toContain(
        '0 bytes past the end of allocated memory, which has 128',
      )
      const both = new Int32Array(64)
      kernels.launch('grows', one, [both, both.subarray(16, 48)])
      expect([...both.subarray(16, 48)]).toEqual(Array.from({ length: 32 }, (_, i) => (i < 16 ? 1 : 2)))
    })
  })

  it('switch threads quickly', () => {
    const out = new Float32Array(256)
    const launch = () => kernels.launch('many', { grid: [1], block: [256] }, [out, { int: 300 }])
    launch()
    let best = Infinity
    for (let i = 0; i < 20; i++) {
      const start = performance.now()
      launch()
      best = Math.min(best, performance.now() - start)
    }
    if (process.env.EMULATOR_TIMES) console.log(`${best.toFixed(3)} ms`)
    expect(best).toBeLessThan(20)
  })

  it('are compiled once, and say what does not compile', async () => {
    expect(await compileForHost(source)).toBe(kernels)
    await expect(compileForHost('extern "C" __global__ void k(float* x) {\n  y = 1;\n}')).rejects.toThrow(
      'kernel.cu:2:3',
    )
    await expect(compileForHost('extern "C" __global__ void k(double x) {}')).rejects.toThrow(
      "a kernel's parameters are",
    )
    await expect(compileForHost('int x;')).rejects.toThrow('has no kernel')
  })
})

function never(): never {
  throw new Error('there is no compiler')
}
