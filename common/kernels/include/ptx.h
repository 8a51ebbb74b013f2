// ptx.h - instructions that C++ has no word for: inline PTX on a GPU, the same arithmetic in C++ on the simulator.
//
//   cp_async_16(smem, global, inside)   16 bytes from global to shared memory without a register on the way; zeros if not
//   cp_async_commit(), cp_async_wait<N>()     inside. What was begun before a commit is a group; wait until at most the
//                                       last N groups are under way. Only then, and after a barrier, may it be read.
//   ldmatrix_x4(r, row)                 four 8×8 matrices of halves out of shared memory; lane i gives the address of a
//                                       row, lanes 0–7 those of the first matrix. _trans gives each one transposed.
//   ldmatrix_x2(r, row)                 two of them, of the rows that lanes 0–15 give
//   stmatrix_x4(row, r), stmatrix_x2    and back; as one instruction from sm_90 on, else as stores of 4 bytes
//   store_16(smem, a)                   16 bytes as one access, also where a compiler does not see that it may
//   mma_f16(d, a, b)                    d (16×8, float) += a (16×16, half) · b (16×8, half), a warp together
//   mma_f16(d, a, b, c)                 d = a · b + c
//   mma_f16_k8(d, a, b)                 d += a · b of 8 columns of a: a[0], a[1] and b[0] of those below
//   mma_tf32(d, a, b)                   d (16×8, float) += a (16×8, tf32) · b (8×8, tf32)
//   mma_s8(d, a, b)                     d (16×8, int) += a (16×32, signed char) · b (32×8, signed char), exact modulo 2^32
//   mma_s8(d, a, b, c)                  d = a · b + c
//   mma_bytes<U8>(d, a, b, c)           as mma_s8, also without c; U8: a is of unsigned char
//   mma_bytes_k16<U8>(d, a, b, c)       the same of 16 columns of a: a[0], a[1] and b[0] of those below
//   fma_of_small(a, b, c)               fmaf that keeps floats below 2^-126; CuPy compiles all others with -ftz=true: 0
//   fma_saturated(a, b, c)              the same, clamped to 0 … 1; NaN becomes 0
//   pack_saturated(a, b, c, d)          four int, each clamped to −128 … 127, as the bytes of a register, a the lowest
//   pack_unsigned(a, b, c, d)           the same, each clamped to 0 … 255; of a and b alone the lower half
//   to_tf32(x)                          the float rounded to 10 bits of fraction, as bits
//   pack_relu(a, b)                     two floats rounded to halves in a register, negative ones to 0; NaN stays
//   max_halves(a, b), min_halves(a, b)  of two halves in a register each; NaN stays
//   clamp(x, low, high)                 two instructions where `x < low ? low : x > high ? high : x` takes four; NaN stays
//   here(x)                             x, of which a compiler does not know that it is the same each time: what depends
//                                       on it is computed where it is needed, not once before a loop, and then kept
//
// Who holds what (PTX ISA, "Matrix Fragments for mma.m16n8k16" and "… mma.m16n8k8"), with g = lane / 4, t = lane % 4:
//   d[0], d[1]: row g, columns 2t, 2t + 1;  d[2], d[3]: row g + 8.
//   halves, two in a register:  a[0]: row g, columns 2t, 2t + 1;  a[1]: row g + 8;  a[2], a[3]: the same 8 columns on.
//                               b[0]: rows 2t, 2t + 1, column g;  b[1]: 8 rows on.
//   tf32, one in a register:    a[0]: row g, column t;  a[1]: row g + 8;  a[2], a[3]: the same 4 columns on.
//                               b[0]: row t, column g;  b[1]: 4 rows on.
//   bytes, four in a register:  a[0]: row g, columns 4t … 4t + 3;  a[1]: row g + 8;  a[2], a[3]: the same 16 columns on.
//   ("… mma.m16n8k32")          b[0]: rows 4t … 4t + 3, column g;  b[1]: 16 rows on. ldmatrix gives them as it gives halves.
// All of it needs sm_80, and all 32 lanes of a warp.
#pragma once
#include <cuda_fp16.h>

#ifndef __CUDA_SIMULATOR__

__device__ __forceinline__ unsigned smem_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void cp_async_16(void* smem, const void* global, bool inside = true) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_address(smem)), "l"(global), "r"(inside ? 16 : 0) : "memory");
}
__device__ __forceinline__ void cp_async_8(void* smem, const void* global, bool inside = true) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(smem_address(smem)), "l"(global), "r"(inside ? 8 : 0) : "memory");
}
__device__ __forceinline__ void cp_async_4(void* smem, const void* global, bool inside = true) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(smem_address(smem)), "l"(global), "r"(inside ? 4 : 0) : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_address(row)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_address(row)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x2(unsigned (&r)[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(smem_address(row)) : "memory");
}
__device__ __forceinline__ void store_16(void* smem, uint4 a) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(smem_address(smem)), "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w) : "memory");
}
__device__ __forceinline__ void stmatrix_x4(void* row, const unsigned (&r)[4]) {
#if __CUDA_ARCH__ >= 900
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::
                 "r"(smem_address(row)), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
#else
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
#pragma unroll
    for (int m = 0; m < 4; ++m) {
        const unsigned there = __shfl_sync(0xffffffffu, smem_address(row), 8 * m + lane / 4);
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(there + lane % 4 * 4), "r"(r[m]) : "memory");
    }
#endif
}
__device__ __forceinline__ void stmatrix_x2(void* row, const unsigned (&r)[2]) {
#if __CUDA_ARCH__ >= 900
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::
                 "r"(smem_address(row)), "r"(r[0]), "r"(r[1]) : "memory");
#else
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
#pragma unroll
    for (int m = 0; m < 2; ++m) {
        const unsigned there = __shfl_sync(0xffffffffu, smem_address(row), 8 * m + lane / 4);
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(there + lane % 4 * 4), "r"(r[m]) : "memory");
    }
#endif
}

__device__ __forceinline__ void mma_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const float (&c)[4]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}
__device__ __forceinline__ void mma_f16_k8(float (&d)[4], const unsigned (&a)[2], unsigned b) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b));
}
__device__ __forceinline__ void mma_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_s8(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_s8(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const int (&c)[4]) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}
template <bool U8>
__device__ __forceinline__ void mma_bytes(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const int (&c)[4]) {
    if constexpr (U8)
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
    else
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}
template <bool U8> __device__ __forceinline__ void mma_bytes(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    mma_bytes<U8>(d, a, b, d);
}
template <bool U8>
__device__ __forceinline__ void mma_bytes_k16(int (&d)[4], const unsigned (&a)[2], unsigned b, const int (&c)[4]) {
    if constexpr (U8)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
                     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(b), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
                     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(b), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}
template <bool U8> __device__ __forceinline__ void mma_bytes_k16(int (&d)[4], const unsigned (&a)[2], unsigned b) {
    mma_bytes_k16<U8>(d, a, b, d);
}
__device__ __forceinline__ float fma_of_small(float a, float b, float c) {
    float d;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
    return d;
}
__device__ __forceinline__ float fma_saturated(float a, float b, float c) {
    float d;
    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
    return d;
}
__device__ __forceinline__ unsigned pack_unsigned(int a, int b, int c, int d) {
    unsigned high, all;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(high) : "r"(d), "r"(c));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(all) : "r"(b), "r"(a), "r"(high));
    return all;
}
__device__ __forceinline__ unsigned pack_unsigned(int a, int b) {
    unsigned two;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(two) : "r"(b), "r"(a));
    return two;
}
__device__ __forceinline__ unsigned pack_saturated(int a, int b, int c, int d) {
    unsigned high, all;  // the first operand goes above the second, both below the last
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, 0;" : "=r"(high) : "r"(d), "r"(c));
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(all) : "r"(b), "r"(a), "r"(high));
    return all;
}
__device__ __forceinline__ unsigned to_tf32(float x) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}
__device__ __forceinline__ float clamp(float x, float low, float high) {
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(low));
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(high));
    return x;
}
__device__ __forceinline__ unsigned pack_relu(float a, float b) {
    unsigned two;
    asm("cvt.rn.relu.f16x2.f32 %0, %2, %1;" : "=r"(two) : "f"(a), "f"(b));
    return two;
}
__device__ __forceinline__ unsigned max_halves(unsigned a, unsigned b) {
    asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
}
__device__ __forceinline__ unsigned min_halves(unsigned a, unsigned b) {
    asm("min.NaN.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
}
__device__ __forceinline__ int here(int x) {
    asm volatile("" : "+r"(x));
    return x;
}

#else  // ---- The simulator: a copy arrives when it is waited for, not before; matrices are put together from all lanes

extern "C" {
void sim_async_copy(void* to, const void* from, int bytes, int inside);
void sim_async_commit();
void sim_async_wait(int groups);
}
template <class T> static SIM_MEMBER void sim_cp_async(void* smem, const void* global, bool inside) {
    if (inside) *(T*)smem = *(const T*)global;  // for the trace: one load, one store. What was stored is then taken away
    else *(T*)smem = T();
    sim_async_copy(smem, global, (int)sizeof(T), inside);
}
static SIM_MEMBER void cp_async_16(void* smem, const void* global, bool inside = true) { sim_cp_async<uint4>(smem, global, inside); }
static SIM_MEMBER void cp_async_8(void* smem, const void* global, bool inside = true) { sim_cp_async<uint2>(smem, global, inside); }
static SIM_MEMBER void cp_async_4(void* smem, const void* global, bool inside = true) { sim_cp_async<unsigned>(smem, global, inside); }
SIM_INLINE void cp_async_commit() { sim_async_commit(); }
template <int N> SIM_INLINE void cp_async_wait() { sim_async_wait(N); }

struct SimMatrices {
    uint4 row;  // 8 halves
    unsigned* r;
    bool transposed;
    SIM_HIDDEN static unsigned element(void** records, int matrix, int row, int column) {
        return ((const unsigned short*)&((SimMatrices*)records[8 * matrix + row])->row)[column];
    }
    SIM_HIDDEN static void combine(unsigned, void** records) {
        for (int lane = 0; lane < 32; ++lane) {
            SimMatrices* mine = (SimMatrices*)records[lane];
            const int g = lane / 4, t = lane % 4;
            for (int m = 0; m < 4; ++m)
                mine->r[m] = mine->transposed ? element(records, m, 2 * t, g) | element(records, m, 2 * t + 1, g) << 16
                                              : element(records, m, g, 2 * t) | element(records, m, g, 2 * t + 1) << 16;
        }
    }
};
SIM_INLINE void sim_ldmatrix(unsigned* r, uint4 row, bool transposed) {
    SimMatrices record;
    record.row = row, record.r = r, record.transposed = transposed;
    sim_collective(0xffffffffu, &record, SimMatrices::combine);
}
static SIM_MEMBER void ldmatrix_x4(unsigned (&r)[4], const void* row) { sim_ldmatrix(r, *(const uint4*)row, false); }
static SIM_MEMBER void ldmatrix_x4_trans(unsigned (&r)[4], const void* row) { sim_ldmatrix(r, *(const uint4*)row, true); }

static SIM_MEMBER void ldmatrix_x2(unsigned (&r)[2], const void* row) {
    unsigned all[4];
    uint4 mine = {0, 0, 0, 0};  // lanes 16–31 give no rows
    if (threadIdx.x % 32 < 16) mine = *(const uint4*)row;
    sim_ldmatrix(all, mine, false);
    r[0] = all[0], r[1] = all[1];
}
static SIM_MEMBER void store_16(void* smem, uint4 a) { *(uint4*)smem = a; }

struct SimRows {
    unsigned r[4];
    uint4 row;
    SIM_HIDDEN static void combine(unsigned, void** records) {
        for (int lane = 0; lane < 32; ++lane)
            for (int t = 0; t < 4; ++t) ((unsigned*)&((SimRows*)records[lane])->row)[t] = ((SimRows*)records[lane % 8 * 4 + t])->r[lane / 8];
    }
};
static SIM_MEMBER void stmatrix_x4(void* row, const unsigned (&r)[4]) {
    SimRows record;
    for (int m = 0; m < 4; ++m) record.r[m] = r[m];
    sim_collective(0xffffffffu, &record, SimRows::combine);
    *(uint4*)row = record.row;
}

static SIM_MEMBER void stmatrix_x2(void* row, const unsigned (&r)[2]) {
    SimRows record;
    record.r[0] = r[0], record.r[1] = r[1], record.r[2] = record.r[3] = 0;
    sim_collective(0xffffffffu, &record, SimRows::combine);
    if (threadIdx.x % 32 < 16) *(uint4*)row = record.row;
}

template <bool HALVES> struct SimMma {
    enum { K = HALVES ? 16 : 8 };
    float* d;
    const unsigned *a, *b;
    SIM_HIDDEN static float half_of(unsigned two, int high) { return __half2float(__ushort_as_half((unsigned short)(two >> 16 * high))); }
    SIM_HIDDEN static float tf32(unsigned bits) { return __uint_as_float(bits & 0xffffe000u); }
    SIM_HIDDEN static void combine(unsigned, void** records) {
        float A[16][K], B[K][8];
        for (int lane = 0; lane < 32; ++lane) {
            const SimMma* mine = (const SimMma*)records[lane];
            const int g = lane / 4, t = lane % 4;
            for (int i = 0; i < 4; ++i)
                if (HALVES)
                    for (int high = 0; high < 2; ++high) {
                        A[g + i % 2 * 8][2 * t + high + i / 2 * 8] = half_of(mine->a[i], high);
                        if (i < 2) B[2 * t + high + i * 8][g] = half_of(mine->b[i], high);
                    }
                else {
                    A[g + i % 2 * 8][t + i / 2 * 4] = tf32(mine->a[i]);
                    if (i < 2) B[t + i * 4][g] = tf32(mine->b[i]);
                }
        }
        float D[16][8] = {};
        for (int row = 0; row < 16; ++row)
            for (int k = 0; k < K; ++k)
                for (int column = 0; column < 8; ++column) D[row][column] += A[row][k] * B[k][column];
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < 4; ++i) ((SimMma*)records[lane])->d[i] += D[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2];
    }
};
template <bool HALVES> SIM_INLINE void sim_mma(float* d, const unsigned* a, const unsigned* b) {
    SimMma<HALVES> record = {d, a, b};
    sim_collective(0xffffffffu, &record, SimMma<HALVES>::combine);
}
SIM_INLINE void mma_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { sim_mma<true>(d, a, b); }
SIM_INLINE void mma_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const float (&c)[4]) {
    for (int i = 0; i < 4; ++i) d[i] = c[i];
    sim_mma<true>(d, a, b);
}
SIM_INLINE void mma_f16_k8(float (&d)[4], const unsigned (&a)[2], unsigned b) {
    const unsigned whole_a[4] = {a[0], a[1], 0, 0}, whole_b[2] = {b, 0};
    sim_mma<true>(d, whole_a, whole_b);
}
SIM_INLINE void mma_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { sim_mma<false>(d, a, b); }
template <bool U8> struct SimMmaBytes {
    int* d;
    const unsigned *a, *b;
    SIM_HIDDEN static void combine(unsigned, void** records) {
        signed char A[16][32], B[8][32];
        for (int lane = 0; lane < 32; ++lane) {
            const SimMmaBytes* mine = (const SimMmaBytes*)records[lane];
            const int g = lane / 4, t = lane % 4;
            for (int i = 0; i < 4; ++i) {
                *(unsigned*)&A[g + i % 2 * 8][4 * t + i / 2 * 16] = mine->a[i];
                if (i < 2) *(unsigned*)&B[g][4 * t + i * 16] = mine->b[i];
            }
        }
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < 4; ++i) {
                int& d = ((SimMmaBytes*)records[lane])->d[i];
                const signed char *row = A[lane / 4 + i / 2 * 8], *column = B[2 * (lane % 4) + i % 2];
                int sum = 0;
                for (int k = 0; k < 32; ++k) sum += (U8 ? row[k] & 255 : row[k]) * column[k];
                d = (int)((unsigned)d + (unsigned)sum);
            }
    }
};
template <bool U8> SIM_INLINE void mma_bytes(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    SimMmaBytes<U8> record = {d, a, b};
    sim_collective(0xffffffffu, &record, SimMmaBytes<U8>::combine);
}
template <bool U8> SIM_INLINE void mma_bytes_k16(int (&d)[4], const unsigned (&a)[2], unsigned b) {
    const unsigned whole_a[4] = {a[0], a[1], 0, 0}, whole_b[2] = {b, 0};
    mma_bytes<U8>(d, whole_a, whole_b);
}
template <bool U8> SIM_INLINE void mma_bytes(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const int (&c)[4]) {
    for (int i = 0; i < 4; ++i) d[i] = c[i];
    mma_bytes<U8>(d, a, b);
}
template <bool U8> SIM_INLINE void mma_bytes_k16(int (&d)[4], const unsigned (&a)[2], unsigned b, const int (&c)[4]) {
    for (int i = 0; i < 4; ++i) d[i] = c[i];
    mma_bytes_k16<U8>(d, a, b);
}
SIM_INLINE float fma_of_small(float a, float b, float c) { return __fmaf_rn(a, b, c); }
SIM_INLINE float fma_saturated(float a, float b, float c) {
    const float d = __fmaf_rn(a, b, c);
    return d > 1.0f ? 1.0f : d > 0.0f ? d : 0.0f;
}
SIM_INLINE void mma_s8(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { mma_bytes<false>(d, a, b); }
SIM_INLINE void mma_s8(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const int (&c)[4]) {
    for (int i = 0; i < 4; ++i) d[i] = c[i];
    mma_s8(d, a, b);
}
template <int LOW, int HIGH> SIM_INLINE unsigned sim_pack(int a, int b, int c, int d) {
    const int four[4] = {a, b, c, d};
    unsigned all = 0;
    for (int i = 0; i < 4; ++i) all |= (unsigned)((four[i] < LOW ? LOW : four[i] > HIGH ? HIGH : four[i]) & 255) << 8 * i;
    return all;
}
SIM_INLINE unsigned pack_saturated(int a, int b, int c, int d) { return sim_pack<-128, 127>(a, b, c, d); }
SIM_INLINE unsigned pack_unsigned(int a, int b, int c, int d) { return sim_pack<0, 255>(a, b, c, d); }
SIM_INLINE unsigned pack_unsigned(int a, int b) { return sim_pack<0, 255>(a, b, 0, 0); }
SIM_INLINE unsigned pack_relu(float a, float b) {
    return __half_as_ushort(__float2half(a < 0.0f ? 0.0f : a)) | (unsigned)__half_as_ushort(__float2half(b < 0.0f ? 0.0f : b)) << 16;
}
template <bool LARGER> SIM_INLINE unsigned sim_choose_halves(unsigned a, unsigned b) {
    unsigned chosen = 0;
    for (int shift = 0; shift < 32; shift += 16) {
        const float x = __half2float(__ushort_as_half((unsigned short)(a >> shift)));
        const float y = __half2float(__ushort_as_half((unsigned short)(b >> shift)));
        chosen |= (unsigned)__half_as_ushort(__float2half(x != x || (LARGER ? x > y : x < y) ? x : y)) << shift;
    }
    return chosen;
}
SIM_INLINE unsigned max_halves(unsigned a, unsigned b) { return sim_choose_halves<true>(a, b); }
SIM_INLINE unsigned min_halves(unsigned a, unsigned b) { return sim_choose_halves<false>(a, b); }
static SIM_MEMBER float clamp(float x, float low, float high) { return x < low ? low : x > high ? high : x; }
SIM_INLINE unsigned to_tf32(float x) {  // to nearest, halves away from zero
    const unsigned bits = __float_as_uint(x);
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
}
static SIM_MEMBER int here(int x) { return x; }

#endif
