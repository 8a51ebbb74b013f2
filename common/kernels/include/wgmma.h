// wgmma.h - Hopper's products of matrices in shared memory, by four warps together. Inline PTX if compiled for sm_90a; for
// other cards and the simulator the same arithmetic in C++, many times slower. All 128 threads of a warpgroup take part.
//
//   wgmma<N, BY_ROWS>(d, a, b, apart)   d (64×N, float) += a (64×16, half) · b (16×N, half); N is 16, 24, 32, 40, 48, 64,
//                                       80, 96, 128, 160, 192, 240 or 256
//   wgmma<N>(d, WgmmaRows(a), WgmmaRows(b) + k)    the same, not BY_ROWS; what is known of a tile is computed once. A fourth
//                                       argument: so many rows of a hold something, the sums of the others are not read
//   wgmma_begin()                       before the first of several: what the warpgroup has written to registers is there
//   wgmma_commit(), wgmma_wait<G>()     as with cp.async: they run by themselves, a commit ends a group, wait until at most
//                                       G groups are under way; until then d, a and b are not to be touched
//   async_fence()                       what this thread has written to shared memory, wgmma may read after a barrier
//
// a and b lie in rows of 64 halves, 128 bytes; the eight 16-byte pieces of row r are exchanged by an XOR with r mod 8, as
// tiles in rung 9 are; a tile begins at a multiple of 1,024 bytes, 8 rows. a points to row 0, column k of its 64 rows, k a
// multiple of 16. b is a tile of N rows, one a column of b, and points like a; or, BY_ROWS, it lies as it is, in tiles of 64
// columns that are `apart` halves apart, and points to the first one's row k.
//
// d: warp w of the four has rows 16·w to 16·w + 15; a lane's part is that of mma_f16's sums: d[j][0], d[j][1]: row g, columns
// 8j + 2t, 8j + 2t + 1; d[j][2], d[j][3]: row g + 8.
#pragma once
#include "ptx.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // compiled for sm_90a

__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int G> __device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(G) : "memory"); }
__device__ __forceinline__ void async_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Where a matrix lies and how (PTX ISA, "Matrix Descriptor Format"): address, two strides, all in 16 bytes, and the XOR
__device__ __forceinline__ unsigned long long wgmma_matrix(const __half* p, int leading_bytes, int stride_bytes) {
    const unsigned long long at = (smem_address(p) & 0x3ffff) >> 4, leading = leading_bytes >> 4, stride = stride_bytes >> 4;
    return at | leading << 16 | stride << 32 | 1ull << 62;
}

// A tile of rows of 64 halves, as wgmma gets it: what it needs are 32 bits; the rest is the same for all of them.
struct WgmmaRows {
    unsigned low;
    __device__ __forceinline__ explicit WgmmaRows(const __half* p) : low(smem_address(p) >> 4 | 1u << 16) {}
    __device__ __forceinline__ WgmmaRows operator+(int halves) const {
        WgmmaRows there = *this;
        there.low += halves / 8;
        return there;
    }
    __device__ __forceinline__ unsigned long long bits() const { return low | (unsigned long long)(64u | 1u << 30) << 32; }
};

#define WGMMA_TEN(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define WGMMA_D(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define WGMMA_D8(j) WGMMA_D(j), WGMMA_D(j + 1), WGMMA_D(j + 2), WGMMA_D(j + 3), WGMMA_D(j + 4), WGMMA_D(j + 5), WGMMA_D(j + 6), WGMMA_D(j + 7)
#define WGMMA_50 WGMMA_TEN() WGMMA_TEN(1) WGMMA_TEN(2) WGMMA_TEN(3) WGMMA_TEN(4)
#define WGMMA_100 WGMMA_50 WGMMA_TEN(5) WGMMA_TEN(6) WGMMA_TEN(7) WGMMA_TEN(8) WGMMA_TEN(9)
template <int N, bool BY_ROWS> __device__ __forceinline__ void wgmma_multiply(float (&d)[N / 8][4], unsigned long long A, unsigned long long B) {
#define WGMMA(n, registers, a, b, by_rows, ...)                                                                                      \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" registers "}, %" #a ", %" #b ", 1, 1, 1, 0, %" #by_rows ";" \
                 : __VA_ARGS__ : "l"(A), "l"(B), "n"(BY_ROWS))
    if constexpr (N == 256)
        WGMMA(256, WGMMA_100 WGMMA_TEN(10) WGMMA_TEN(11) "%120, %121, %122, %123, %124, %125, %126, %127", 128, 129, 130,
              WGMMA_D8(0), WGMMA_D8(8), WGMMA_D8(16), WGMMA_D8(24));
    else if constexpr (N == 240)
        WGMMA(240, WGMMA_100 WGMMA_TEN(10) "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119", 120, 121, 122,
              WGMMA_D8(0), WGMMA_D8(8), WGMMA_D8(16), WGMMA_D(24), WGMMA_D(25), WGMMA_D(26), WGMMA_D(27), WGMMA_D(28), WGMMA_D(29));
    else if constexpr (N == 192)
        WGMMA(192, WGMMA_50 WGMMA_TEN(5) WGMMA_TEN(6) WGMMA_TEN(7) WGMMA_TEN(8) "%90, %91, %92, %93, %94, %95", 96, 97, 98,
              WGMMA_D8(0), WGMMA_D8(8), WGMMA_D8(16));
    else if constexpr (N == 160)
        WGMMA(160, WGMMA_50 WGMMA_TEN(5) WGMMA_TEN(6) "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79", 80, 81, 82,
              WGMMA_D8(0), WGMMA_D8(8), WGMMA_D(16), WGMMA_D(17), WGMMA_D(18), WGMMA_D(19));
    else if constexpr (N == 128)
        WGMMA(128, WGMMA_50 WGMMA_TEN(5) "%60, %61, %62, %63", 64, 65, 66, WGMMA_D8(0), WGMMA_D8(8));
    else if constexpr (N == 96)
        WGMMA(96, WGMMA_TEN() WGMMA_TEN(1) WGMMA_TEN(2) WGMMA_TEN(3) "%40, %41, %42, %43, %44, %45, %46, %47", 48, 49, 50,
              WGMMA_D8(0), WGMMA_D(8), WGMMA_D(9), WGMMA_D(10), WGMMA_D(11));
    else if constexpr (N == 80)
        WGMMA(80, WGMMA_TEN() WGMMA_TEN(1) WGMMA_TEN(2) "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39", 40, 41, 42,
              WGMMA_D8(0), WGMMA_D(8), WGMMA_D(9));
    else if constexpr (N == 64)
        WGMMA(64, WGMMA_TEN() WGMMA_TEN(1) WGMMA_TEN(2) "%30, %31", 32, 33, 34, WGMMA_D8(0));
    else if constexpr (N == 48)
        WGMMA(48, WGMMA_TEN() WGMMA_TEN(1) "%20, %21, %22, %23", 24, 25, 26, WGMMA_D(0), WGMMA_D(1), WGMMA_D(2), WGMMA_D(3), WGMMA_D(4), WGMMA_D(5));
    else if constexpr (N == 40)
        WGMMA(40, WGMMA_TEN() "%10, %11, %12, %13, %14, %15, %16, %17, %18, %19", 20, 21, 22, WGMMA_D(0), WGMMA_D(1), WGMMA_D(2), WGMMA_D(3),
              WGMMA_D(4));
    else if constexpr (N == 24) WGMMA(24, WGMMA_TEN() "%10, %11", 12, 13, 14, WGMMA_D(0), WGMMA_D(1), WGMMA_D(2));
    else if constexpr (N == 16) WGMMA(16, "%0, %1, %2, %3, %4, %5, %6, %7", 8, 9, 10, WGMMA_D(0), WGMMA_D(1));
    else {
        static_assert(N == 32, "N is 16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 240 or 256");
        WGMMA(32, WGMMA_TEN() "%10, %11, %12, %13, %14, %15", 16, 17, 18, WGMMA_D(0), WGMMA_D(1), WGMMA_D(2), WGMMA_D(3));
    }
}
template <int N, bool BY_ROWS> __device__ __forceinline__ void wgmma(float (&d)[N / 8][4], const __half* a, const __half* b, int apart) {
    wgmma_multiply<N, BY_ROWS>(d, wgmma_matrix(a, 16, 1024), wgmma_matrix(b, BY_ROWS ? apart * 2 : 16, 1024));
}
template <int N> __device__ __forceinline__ void wgmma(float (&d)[N / 8][4], WgmmaRows a, WgmmaRows b, int = 64) {
    wgmma_multiply<N, false>(d, a.bits(), b.bits());
}

#else  // ---- Other cards and the simulator: each lane computes its own sums, at once

__device__ __forceinline__ void wgmma_begin() {}
__device__ __forceinline__ void wgmma_commit() {}
template <int G> __device__ __forceinline__ void wgmma_wait() {}
__device__ __forceinline__ void async_fence() {}

// The half at p where it lies: bits 7 to 9 of an address, the number of a row of 128 bytes, exchange its pieces of 16 bytes.
__device__ __forceinline__ float wgmma_element(const __half* p) {
    const unsigned long long address = (unsigned long long)p;
    return __half2float(*(const __half*)(address ^ (address >> 7 & 7) << 4));
}
template <int N, bool BY_ROWS>
__device__ __forceinline__ void wgmma(float (&d)[N / 8][4], const __half* a, const __half* b, int apart, int rows = 64) {
    const int row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    if (row >= rows) return;
    float of_a[2][16];
    for (int k = 0; k < 16; ++k)
        for (int i = 0; i < 2; ++i) of_a[i][k] = row + 8 * i < rows ? wgmma_element(a + (row + 8 * i) * 64 + k) : 0.0f;
    for (int j = 0; j < N / 8; ++j)
        for (int e = 0; e < 2; ++e) {
            const int n = 8 * j + column + e;
            float sums[2] = {};
            for (int k = 0; k < 16; ++k) {
                const float of_b = wgmma_element(BY_ROWS ? b + n / 64 * apart + k * 64 + n % 64 : b + n * 64 + k);
                for (int i = 0; i < 2; ++i) sums[i] += of_a[i][k] * of_b;
            }
            for (int i = 0; i < 2; ++i) d[j][2 * i + e] += sums[i];
        }
}

struct WgmmaRows {
    const __half* p;
    __device__ __forceinline__ explicit WgmmaRows(const __half* p) : p(p) {}
    __device__ __forceinline__ WgmmaRows operator+(int halves) const { return WgmmaRows(p + halves); }
};
template <int N> __device__ __forceinline__ void wgmma(float (&d)[N / 8][4], WgmmaRows a, WgmmaRows b, int rows = 64) {
    wgmma<N, false>(d, a.p, b.p, 0, rows);
}

#endif
