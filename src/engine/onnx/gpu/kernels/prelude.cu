// What the kernels stand on: halves as their bits, loads, products of warps on tensor cores, and launches that overlap.
// On a host without a GPU testing/host.h takes this file's place, and the rest is the same.
#define DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]
#define INFINITY __int_as_float(0x7f800000)

__device__ __forceinline__ float fromHalf(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

__device__ __forceinline__ unsigned short toHalf(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

// Two halves in a word, the first in its low bits.
__device__ __forceinline__ unsigned toHalf2(float low, float high) {
  unsigned packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ __forceinline__ float2 fromHalf2(unsigned packed) {
  return make_float2(fromHalf(packed & 0xffff), fromHalf(packed >> 16));
}

// c [16, 8] += a [16, 16] b [16, 8], spread over a warp as PTX lays out mma.m16n8k16.
__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four matrices [8, 8] of halves from shared memory, as fragments: lane 8 * m + i gives the address of matrix m's row i. A
// lane gets two halves of each, of row lane / 4; transposed, of column lane / 4.
__device__ __forceinline__ void ldmatrix4(unsigned (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"((unsigned)__cvta_generic_to_shared(row))
               : "memory");
}
__device__ __forceinline__ void ldmatrix4Transposed(unsigned (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"((unsigned)__cvta_generic_to_shared(row))
               : "memory");
}

// 2^x in one instruction, which takes what is tiny for nothing.
__device__ __forceinline__ float powerOf2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

// 16 bytes from device to shared memory, in the background: what was begun before a commit has come with the wait for it.
__device__ __forceinline__ void copyAsync16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
// The same where `there`, without a branch.
__device__ __forceinline__ void copyAsync16If(bool there, void* to, const void* from) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n@p cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\n}" ::"r"(
                   (unsigned)__cvta_generic_to_shared(to)),
               "l"(from), "r"((int)there)
               : "memory");
}
__device__ __forceinline__ void copyAsyncCommit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void copyAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Programmatic dependent launch: a kernel may begin before the one before it has ended, once all blocks of that have said
// so, and waits here for its results.
__device__ __forceinline__ void waitForPrevious() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void letNextBegin() { asm volatile("griddepcontrol.launch_dependents;"); }
