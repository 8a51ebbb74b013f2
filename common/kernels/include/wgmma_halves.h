// wgmma_halves.h - Hopper's products with the left factor in registers, and with them fp32 products of pairs of halves.
//
//   wgmma_left<N, FRESH>(d, a, b)             d (64×N, float) += a (64×16, half) · b (16×N, half), by a warpgroup; FRESH:
//                                             d = a · b. N is 32, 64, 80, 96, 128 or 160
//   wgmma_halves(d, high, low, b)             d = x (64×32) · w (32×N): six products, the small ones first; b has 32 high
//                                             halves in a row of 64 and their low ones behind, with the scales of
//                                             pair_of_halves.h
//   load_halves(high, low, row, r, scale)     the fragments of 32 floats of a row, and of the row 8 below
//
// Begin, commit and wait as in wgmma.h; a and b are not to be touched before, nor d. b lies as there. A warp's rows of a are
// those of mma_f16 (ptx.h): a[0]: row g, columns 2t, 2t + 1; a[1]: row g + 8; a[2], a[3]: the same 8 columns on.
//
// Order of channels. Sums do not ask for one, but both factors must have the same. Of 32 floats of a row lane t loads 8t to
// 8t + 7, as two pieces of 16 bytes: floats 8t + 4s + 2j and 8t + 4s + 2j + 1 are columns 2t + 8j and 2t + 8j + 1 of step s.
// So the first pieces of rows 2i and 2i + 1, which are exchanged by an XOR with the row, lie in 8 different groups of banks.
// Halves.rows (common/kernels/halves.py) writes the weights so.
#pragma once
#include "pair_of_halves.h"
#include "wgmma.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // compiled for sm_90a

template <int N, bool FRESH>
__device__ __forceinline__ void wgmma_left(float (&d)[N / 8][4], const unsigned (&a)[4], const __half* b) {
    const unsigned long long B = wgmma_matrix(b, 16, 1024);
#define WGMMA_LEFT(n, registers, a0, a1, a2, a3, b, fresh, ...)                                                                     \
    asm volatile("{\n\t.reg .pred more;\n\tsetp.eq.u32 more, %" #fresh ", 0;\n\t"                                                    \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" registers "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, " \
                 "%" #b ", more, 1, 1, 0;\n\t}"                                                                                      \
                 : __VA_ARGS__ : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(B), "n"((int)FRESH))
    if constexpr (N == 160)
        WGMMA_LEFT(160, WGMMA_50 WGMMA_TEN(5) WGMMA_TEN(6) "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79", 80, 81, 82, 83, 84,
                   85, WGMMA_D8(0), WGMMA_D8(8), WGMMA_D(16), WGMMA_D(17), WGMMA_D(18), WGMMA_D(19));
    else if constexpr (N == 128)
        WGMMA_LEFT(128, WGMMA_50 WGMMA_TEN(5) "%60, %61, %62, %63", 64, 65, 66, 67, 68, 69, WGMMA_D8(0), WGMMA_D8(8));
    else if constexpr (N == 96)
        WGMMA_LEFT(96, WGMMA_TEN() WGMMA_TEN(1) WGMMA_TEN(2) WGMMA_TEN(3) "%40, %41, %42, %43, %44, %45, %46, %47", 48, 49, 50, 51,
                   52, 53, WGMMA_D8(0), WGMMA_D(8), WGMMA_D(9), WGMMA_D(10), WGMMA_D(11));
    else if constexpr (N == 80)
        WGMMA_LEFT(80, WGMMA_TEN() WGMMA_TEN(1) WGMMA_TEN(2) "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39", 40, 41, 42, 43, 44,
                   45, WGMMA_D8(0), WGMMA_D(8), WGMMA_D(9));
    else if constexpr (N == 64)
        WGMMA_LEFT(64, WGMMA_TEN() WGMMA_TEN(1) WGMMA_TEN(2) "%30, %31", 32, 33, 34, 35, 36, 37, WGMMA_D8(0));
    else {
        static_assert(N == 32, "N is 32, 64, 80, 96, 128 or 160");
        WGMMA_LEFT(32, WGMMA_TEN() "%10, %11, %12, %13, %14, %15", 16, 17, 18, 19, 20, 21, WGMMA_D(0), WGMMA_D(1), WGMMA_D(2),
                   WGMMA_D(3));
    }
}

#else  // ---- Other cards and the simulator: eight columns at a time, at once

template <int N, bool FRESH>
__device__ __forceinline__ void wgmma_left(float (&d)[N / 8][4], const unsigned (&a)[4], const __half* b) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
        unsigned two[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const unsigned long long address = (unsigned long long)(b + (8 * j + g) * 64 + 8 * i + 2 * t);
            two[i] = *(const unsigned*)(address ^ (address >> 7 & 7) << 4);  // as wgmma_element
        }
        if constexpr (FRESH)
            for (int e = 0; e < 4; ++e) d[j][e] = 0.0f;
        mma_f16(d[j], a, two);
    }
}

#endif

__device__ __forceinline__ void load_halves(unsigned (&high)[2][4], unsigned (&low)[2][4], const float* tile, int r, float scale) {
#pragma unroll
    for (int step = 0; step < 2; ++step)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = r + i * 8, piece = (threadIdx.x % 4 * 2 + step) ^ row % 8;
            const float4 x = *(const float4*)(tile + row * 32 + piece * 4);
            split_halves(high[step][i], low[step][i], x.x, x.y, scale);
            split_halves(high[step][i + 2], low[step][i + 2], x.z, x.w, scale);
        }
}

template <int EIGHTS>
__device__ __forceinline__ void wgmma_halves(float (&d)[EIGHTS][4], const unsigned (&high)[2][4], const unsigned (&low)[2][4],
                                             const __half* b) {
    constexpr int N = EIGHTS * 8;
    wgmma_left<N, true>(d, low[0], b);
    wgmma_left<N, false>(d, low[1], b + 16);
    wgmma_left<N, false>(d, high[0], b + 32);
    wgmma_left<N, false>(d, high[1], b + 48);
    wgmma_left<N, false>(d, high[0], b);
    wgmma_left<N, false>(d, high[1], b + 16);
}
