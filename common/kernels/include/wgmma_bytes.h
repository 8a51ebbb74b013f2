// wgmma_bytes.h - Hopper's products of int8 matrices in shared memory, by four warps together: wgmma.h for bytes.
//
//   wgmma_s8<N>(d, a, b)   d (64×N, int) += a (64×32, signed char) · b (32×N, signed char), exact modulo 2^32. N is 32, 48,
//                          64, 80, 96, 128, 160, 192, 240 or 256
//   wgmma_s8<N, true>      the same, a of unsigned char
//   wgmma_s8<N>(d, WgmmaBytes(a) + k, WgmmaBytes(b) + k)    the same; what is known of a tile is computed once
//
// Begin, commit and wait as in wgmma.h. a and b lie as there: rows of 128 bytes, here 128 numbers, whose eight pieces are
// exchanged by an XOR with the row; a points to row 0, column k of its 64 rows, k a multiple of 32; b is a tile of N rows,
// one a column of b, and points likewise. d: as of mma_s8 (ptx.h), each warp 16 rows.
#pragma once
#include "wgmma.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // compiled for sm_90a

#define WGMMA_I(j) "+r"(d[j][0]), "+r"(d[j][1]), "+r"(d[j][2]), "+r"(d[j][3])
#define WGMMA_I8(j) WGMMA_I(j), WGMMA_I(j + 1), WGMMA_I(j + 2), WGMMA_I(j + 3), WGMMA_I(j + 4), WGMMA_I(j + 5), WGMMA_I(j + 6), WGMMA_I(j + 7)
struct WgmmaBytes {
    WgmmaRows rows;
    __device__ __forceinline__ explicit WgmmaBytes(const signed char* p) : rows((const __half*)p) {}
    __device__ __forceinline__ WgmmaBytes operator+(int bytes) const {
        WgmmaBytes there = *this;
        there.rows.low += bytes / 16;
        return there;
    }
};
template <int N, bool U8 = false> __device__ __forceinline__ void wgmma_s8(int (&d)[N / 8][4], WgmmaBytes a, WgmmaBytes b) {
    const unsigned long long A = a.rows.bits(), B = b.rows.bits();
#define WGMMA_OF(n, kind, registers, a, b, ...)                                                                                    \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k32.s32." kind ".s8 {" registers "}, %" #a ", %" #b ", 1;"                   \
                 : __VA_ARGS__ : "l"(A), "l"(B))
#define WGMMA_BYTES(n, registers, a, b, ...)                                                                                       \
    do {                                                                                                                           \
        if constexpr (U8) WGMMA_OF(n, "u8", registers, a, b, __VA_ARGS__);                                                          \
        else WGMMA_OF(n, "s8", registers, a, b, __VA_ARGS__);                                                                       \
    } while (0)
    if constexpr (N == 256)
        WGMMA_BYTES(256, WGMMA_100 WGMMA_TEN(10) WGMMA_TEN(11) "%120, %121, %122, %123, %124, %125, %126, %127", 128, 129,
                    WGMMA_I8(0), WGMMA_I8(8), WGMMA_I8(16), WGMMA_I8(24));
    else if constexpr (N == 240)
        WGMMA_BYTES(240, WGMMA_100 WGMMA_TEN(10) "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119", 120, 121,
                    WGMMA_I8(0), WGMMA_I8(8), WGMMA_I8(16), WGMMA_I(24), WGMMA_I(25), WGMMA_I(26), WGMMA_I(27), WGMMA_I(28), WGMMA_I(29));
    else if constexpr (N == 192)
        WGMMA_BYTES(192, WGMMA_50 WGMMA_TEN(5) WGMMA_TEN(6) WGMMA_TEN(7) WGMMA_TEN(8) "%90, %91, %92, %93, %94, %95", 96, 97,
                    WGMMA_I8(0), WGMMA_I8(8), WGMMA_I8(16));
    else if constexpr (N == 160)
        WGMMA_BYTES(160, WGMMA_50 WGMMA_TEN(5) WGMMA_TEN(6) "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79", 80, 81, WGMMA_I8(0),
                    WGMMA_I8(8), WGMMA_I(16), WGMMA_I(17), WGMMA_I(18), WGMMA_I(19));
    else if constexpr (N == 128)
        WGMMA_BYTES(128, WGMMA_50 WGMMA_TEN(5) "%60, %61, %62, %63", 64, 65, WGMMA_I8(0), WGMMA_I8(8));
    else if constexpr (N == 96)
        WGMMA_BYTES(96, WGMMA_TEN() WGMMA_TEN(1) WGMMA_TEN(2) WGMMA_TEN(3) "%40, %41, %42, %43, %44, %45, %46, %47", 48, 49,
                    WGMMA_I8(0), WGMMA_I(8), WGMMA_I(9), WGMMA_I(10), WGMMA_I(11));
    else if constexpr (N == 80)
        WGMMA_BYTES(80, WGMMA_TEN() WGMMA_TEN(1) WGMMA_TEN(2) "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39", 40, 41,
                    WGMMA_I8(0), WGMMA_I(8), WGMMA_I(9));
    else if constexpr (N == 48)
        WGMMA_BYTES(48, WGMMA_TEN() WGMMA_TEN(1) "%20, %21, %22, %23", 24, 25, WGMMA_I(0), WGMMA_I(1), WGMMA_I(2), WGMMA_I(3), WGMMA_I(4),
                    WGMMA_I(5));
    else if constexpr (N == 64) WGMMA_BYTES(64, WGMMA_TEN() WGMMA_TEN(1) WGMMA_TEN(2) "%30, %31", 32, 33, WGMMA_I8(0));
    else {
        static_assert(N == 32, "N is 32, 48, 64, 80, 96, 128, 160, 192, 240 or 256");
        WGMMA_BYTES(32, WGMMA_TEN() "%10, %11, %12, %13, %14, %15", 16, 17, WGMMA_I(0), WGMMA_I(1), WGMMA_I(2), WGMMA_I(3));
    }
}
template <int N, bool U8 = false> __device__ __forceinline__ void wgmma_s8(int (&d)[N / 8][4], const signed char* a, const signed char* b) {
    wgmma_s8<N, U8>(d, WgmmaBytes(a), WgmmaBytes(b));
}

#else  // ---- Other cards and the simulator: each lane computes its own sums, at once

struct WgmmaBytes {
    const signed char* p;
    __device__ __forceinline__ explicit WgmmaBytes(const signed char* p) : p(p) {}
    __device__ __forceinline__ WgmmaBytes operator+(int bytes) const { return WgmmaBytes(p + bytes); }
};
template <class T> __device__ __forceinline__ int wgmma_byte(const signed char* p) {  // where it lies: as wgmma_element
    const unsigned long long address = (unsigned long long)p;
    return *(const T*)(address ^ (address >> 7 & 7) << 4);
}
template <int N, bool U8 = false> __device__ __forceinline__ void wgmma_s8(int (&d)[N / 8][4], const signed char* a, const signed char* b) {
    const int row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    int of_a[2][32];
    for (int k = 0; k < 32; ++k)
        for (int i = 0; i < 2; ++i) {
            const signed char* const p = a + (row + 8 * i) * 128 + k;
            of_a[i][k] = U8 ? wgmma_byte<unsigned char>(p) : wgmma_byte<signed char>(p);
        }
    for (int n = 0; n < N; n += 8)
        for (int e = 0; e < 2; ++e)
            for (int k = 0; k < 32; ++k) {
                const int of_b = wgmma_byte<signed char>(b + (n + column + e) * 128 + k);
                for (int i = 0; i < 2; ++i) d[n / 8][2 * i + e] += of_a[i][k] * of_b;
            }
}

template <int N, bool U8 = false> __device__ __forceinline__ void wgmma_s8(int (&d)[N / 8][4], WgmmaBytes a, WgmmaBytes b) {
    wgmma_s8<N, U8>(d, a.p, b.p);
}

#endif
