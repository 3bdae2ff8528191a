/**
 * CUDA C as far as the kernels speak it, for g++ on a CPU: the same source that NVRTC compiles for a device is run here,
 * a block at a time, each thread a fiber. Nothing of the system is included before a kernel, so that its names are its
 * own; `host.cpp` does what needs the system.
 */
#pragma once
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __constant__ static
#define __align__(n) __attribute__((aligned(n)))
// The library holds nothing else for its OS thread, so what that thread has of it is the block's static shared memory.
#define __shared__ static thread_local
#define DYNAMIC_SHARED(type, name) type* name = reinterpret_cast<type*>(emulator::dynamicShared)

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };
struct alignas(8) int2 { int x, y; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
inline int2 make_int2(int x, int y) { return {x, y}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace emulator {

enum Kind { SHUFFLE, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR, BALLOT, ANY, ALL, SYNC, MMA, LDMATRIX, LDMATRIX_TRANSPOSED };

/** Lanes that wait for the others of their mask. */
struct Meeting { unsigned mask, arrived; int kind, line; };

struct Warp {
  unsigned existing, ready, atBarrier, returned;
  int meetings;
  Meeting meeting[32];
  /** What each lane brings to a collective, and takes from it. The lane that comes last does the work for all. */
  unsigned long long value[32], result[32];
  int source[32];
  const void* operand[3][32];
};

/** A thread of the block that runs. */
struct Fiber {
  void* stack;
  uint3 index;
  unsigned lane;
  int line;
  Warp* warp;
};

extern Fiber* current;
extern char* dynamicShared;

/** Lanes of a finished meeting for the one that came last, at once; 0 for the others, once the last has done the work. */
unsigned arrive(int kind, unsigned mask, int line);
void exchange(Warp& warp, unsigned lanes);
void vote(Warp& warp, unsigned lanes, int kind);
void multiply(Warp& warp, unsigned lanes);
void loadMatrices(Warp& warp, unsigned lanes, bool transposed);
void barrier(int line);
void copyLater(void* to, const void* from);
void commitCopies();
void finishCopies(int groupsLeft);
[[noreturn]] void trap();

template <class T>
inline T shuffle(int kind, unsigned mask, T value, int source, int line) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  Warp& warp = *current->warp;
  const unsigned lane = current->lane;
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  warp.value[lane] = bits;
  warp.source[lane] = source;
  if (const unsigned lanes = arrive(kind, mask, line)) exchange(warp, lanes);
  bits = warp.result[lane];
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

inline unsigned votes(int kind, unsigned mask, bool value, int line) {
  Warp& warp = *current->warp;
  const unsigned lane = current->lane;
  warp.value[lane] = value;
  if (const unsigned lanes = arrive(kind, mask, line)) vote(warp, lanes, kind);
  return static_cast<unsigned>(warp.result[lane]);
}

template <class To, class From>
inline To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

/** A kernel by its name, to be called with pointers to its arguments, as the driver's API does. */
struct Entry {
  const char* name;
  void (*call)(void** args);
  /** A letter per parameter. */
  const char* signature;
};
extern const Entry entries[];

template <class T>
struct Letter {
  static_assert(sizeof(T) == 0, "a kernel's parameters are pointers, int, unsigned, float and (unsigned) long long");
};
template <class T> struct Letter<T*> { static constexpr char value = 'p'; };
template <> struct Letter<int> { static constexpr char value = 'i'; };
template <> struct Letter<unsigned> { static constexpr char value = 'u'; };
template <> struct Letter<float> { static constexpr char value = 'f'; };
template <> struct Letter<long long> { static constexpr char value = 'l'; };
template <> struct Letter<unsigned long long> { static constexpr char value = 'l'; };

template <class F, F function>
struct Kernel;
template <class... P, void (*function)(P...)>
struct Kernel<void (*)(P...), function> {
  static constexpr char signature[] = {Letter<P>::value..., 0};
  template <std::size_t... I>
  static void unpack(void** args, std::index_sequence<I...>) {
    function(*static_cast<P*>(args[I])...);
  }
  static void call(void** args) { unpack(args, std::index_sequence_for<P...>()); }
};

}  // namespace emulator

extern uint3 blockIdx;
extern dim3 blockDim, gridDim;
#define threadIdx (emulator::current->index)
constexpr int warpSize = 32;

// Collectives. The line tells one from another: lanes that meet at different ones are in error.
inline void __syncthreads(int line = __builtin_LINE()) { emulator::barrier(line); }
inline void __syncwarp(unsigned mask = ~0u, int line = __builtin_LINE()) { emulator::arrive(emulator::SYNC, mask, line); }
template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, int line = __builtin_LINE()) {
  const int lane = emulator::current->lane;
  return emulator::shuffle(emulator::SHUFFLE, mask, value, (lane & -width) | (source & (width - 1)), line);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, int line = __builtin_LINE()) {
  const int lane = emulator::current->lane, from = lane - static_cast<int>(by);
  return emulator::shuffle(emulator::SHUFFLE_UP, mask, value, from < (lane & -width) ? lane : from, line);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, int line = __builtin_LINE()) {
  const int lane = emulator::current->lane, from = lane + static_cast<int>(by);
  return emulator::shuffle(emulator::SHUFFLE_DOWN, mask, value, from > (lane | (width - 1)) ? lane : from, line);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32, int line = __builtin_LINE()) {
  const int lane = emulator::current->lane, from = lane ^ with;
  return emulator::shuffle(emulator::SHUFFLE_XOR, mask, value, from > (lane | (width - 1)) ? lane : from, line);
}
inline unsigned __ballot_sync(unsigned mask, int value, int line = __builtin_LINE()) {
  return emulator::votes(emulator::BALLOT, mask, value != 0, line);
}
inline int __any_sync(unsigned mask, int value, int line = __builtin_LINE()) {
  return emulator::votes(emulator::ANY, mask, value != 0, line);
}
inline int __all_sync(unsigned mask, int value, int line = __builtin_LINE()) {
  return emulator::votes(emulator::ALL, mask, value != 0, line);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
[[noreturn]] inline void __trap() { emulator::trap(); }

// Atomics: one thread runs at a time, and changes at collectives alone.
#define EMULATED_ATOMICS(T)                                                                     \
  inline T atomicAdd(T* at, T value) { const T old = *at; *at = old + value; return old; }       \
  inline T atomicExch(T* at, T value) { const T old = *at; *at = value; return old; }
#define EMULATED_INTEGER_ATOMICS(T)                                                                      \
  EMULATED_ATOMICS(T)                                                                                    \
  inline T atomicMax(T* at, T value) { const T old = *at; *at = old < value ? value : old; return old; } \
  inline T atomicMin(T* at, T value) { const T old = *at; *at = value < old ? value : old; return old; } \
  inline T atomicOr(T* at, T value) { const T old = *at; *at = old | value; return old; }                \
  inline T atomicAnd(T* at, T value) { const T old = *at; *at = old & value; return old; }               \
  inline T atomicCAS(T* at, T was, T value) { const T old = *at; if (old == was) *at = value; return old; }
EMULATED_ATOMICS(float)
EMULATED_INTEGER_ATOMICS(int)
EMULATED_INTEGER_ATOMICS(unsigned)
EMULATED_INTEGER_ATOMICS(unsigned long long)
#undef EMULATED_ATOMICS
#undef EMULATED_INTEGER_ATOMICS

// Arithmetic.
extern "C" {
float expf(float) noexcept;
float exp2f(float) noexcept;
float logf(float) noexcept;
float log2f(float) noexcept;
float sqrtf(float) noexcept;
float fabsf(float) noexcept;
float fmaxf(float, float) noexcept;
float fminf(float, float) noexcept;
float fmaf(float, float, float) noexcept;
float floorf(float) noexcept;
float ceilf(float) noexcept;
float rintf(float) noexcept;
float roundf(float) noexcept;
float truncf(float) noexcept;
float tanhf(float) noexcept;
float powf(float, float) noexcept;
float sinf(float) noexcept;
float cosf(float) noexcept;
float erff(float) noexcept;
float log1pf(float) noexcept;
int abs(int) noexcept;
}
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float powerOf2(float x) { return exp2f(x); }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline unsigned __float_as_uint(float x) { return emulator::bits<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return emulator::bits<float>(x); }
inline int __float_as_int(float x) { return emulator::bits<int>(x); }
inline float __int_as_float(int x) { return emulator::bits<float>(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __umulhi(unsigned x, unsigned y) { return static_cast<unsigned long long>(x) * y >> 32; }
template <class T>
inline T __ldg(const T* at) { return *at; }
#define EMULATED_MIN_MAX(T, A, B)                                          \
  inline T min(A a, B b) { const T x = a, y = b; return y < x ? y : x; }   \
  inline T max(A a, B b) { const T x = a, y = b; return x < y ? y : x; }
EMULATED_MIN_MAX(int, int, int)
EMULATED_MIN_MAX(unsigned, unsigned, unsigned)
EMULATED_MIN_MAX(unsigned, unsigned, int)
EMULATED_MIN_MAX(unsigned, int, unsigned)
EMULATED_MIN_MAX(long, long, long)
EMULATED_MIN_MAX(unsigned long, unsigned long, unsigned long)
EMULATED_MIN_MAX(long long, long long, long long)
EMULATED_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
EMULATED_MIN_MAX(double, double, double)
#undef EMULATED_MIN_MAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }

// Halves.
namespace emulator {
typedef short Halves __attribute__((vector_size(16)));
typedef float Floats __attribute__((vector_size(16)));
/** As a device has it, which knows one NaN alone. */
inline unsigned short canonical(float from, short half) {
  return __builtin_isnan(from) ? 0x7fff : static_cast<unsigned short>(half);
}
}  // namespace emulator
inline float fromHalf(unsigned short x) {
  return __builtin_ia32_vcvtph2ps(emulator::Halves{static_cast<short>(x)})[0];
}
inline unsigned short toHalf(float x) {
  return emulator::canonical(x, __builtin_ia32_vcvtps2ph(emulator::Floats{x}, 0)[0]);
}
inline float2 fromHalf2(unsigned packed) {
  const emulator::Floats both = __builtin_ia32_vcvtph2ps(
      emulator::Halves{static_cast<short>(packed), static_cast<short>(packed >> 16)});
  return {both[0], both[1]};
}
inline unsigned toHalf2(float low, float high) {
  const emulator::Halves both = __builtin_ia32_vcvtps2ph(emulator::Floats{low, high}, 0);
  return emulator::canonical(low, both[0]) | static_cast<unsigned>(emulator::canonical(high, both[1])) << 16;
}

/** mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 */
inline void mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], int line = __builtin_LINE()) {
  emulator::Warp& warp = *emulator::current->warp;
  const unsigned lane = emulator::current->lane;
  warp.operand[0][lane] = c;
  warp.operand[1][lane] = a;
  warp.operand[2][lane] = b;
  if (const unsigned lanes = emulator::arrive(emulator::MMA, ~0u, line)) emulator::multiply(warp, lanes);
}

namespace emulator {
inline void ldmatrix(int kind, unsigned (&r)[4], const void* row, int line) {
  Warp& warp = *current->warp;
  const unsigned lane = current->lane;
  warp.operand[0][lane] = r;
  warp.operand[1][lane] = row;
  if (const unsigned lanes = arrive(kind, ~0u, line)) loadMatrices(warp, lanes, kind == LDMATRIX_TRANSPOSED);
}
}  // namespace emulator
/** ldmatrix.sync.aligned.m8n8.x4.shared.b16 */
inline void ldmatrix4(unsigned (&r)[4], const void* row, int line = __builtin_LINE()) {
  emulator::ldmatrix(emulator::LDMATRIX, r, row, line);
}
/** ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 */
inline void ldmatrix4Transposed(unsigned (&r)[4], const void* row, int line = __builtin_LINE()) {
  emulator::ldmatrix(emulator::LDMATRIX_TRANSPOSED, r, row, line);
}

// Asynchronous copies come as late as a device may let them come, and until then their place reads as NaN.
inline void copyAsync16(void* shared, const void* global) { emulator::copyLater(shared, global); }
inline void copyAsync16If(bool there, void* shared, const void* global) {
  if (there) emulator::copyLater(shared, global);
}
inline void copyAsyncCommit() { emulator::commitCopies(); }
template <int N>
inline void copyAsyncWait() { emulator::finishCopies(N); }

inline void waitForPrevious() {}
inline void letNextBegin() {}
