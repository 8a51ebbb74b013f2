// pointwise, rung 6 "streaming": for many pixels and few channels. The weights stay in shared memory, the pixels stream past.
// requires: sm_80
//
//   x (P, C), weight (O, C), y and residual (P, O): NHWC. BLOCKS blocks per multiprocessor take BN outputs each and walk over
//   all pixels, a warp 16·TM of them at a time; STAGES - 1 such tiles of x are in flight while one is multiplied.
//
// Moves   x + residual + y once, if BN holds all outputs, and the weights once per block: the minimum. 112×112, 16→96
//         channels in fp16 take 224 bytes and 3,072 FLOPs per pixel, 14 FLOP per byte: memory bandwidth is the limit.
// Gains   weights are loaded once per block, not once per tile, and the grid is started once. After the weights have come
//         there is no barrier: a warp waits for its own copies only. If a row fills half a piece, half the mma are skipped.
// Costs   shared memory for C·BN weights and WARPS·STAGES·16·TM rows: the launcher gives longer rows to rung 4. With few
//         pixels most of the time goes into loading weights that are used once.
// PAIRS   as in rung 4.
#include "epilogue.h"
#include "pair_of_halves.h"
#include "tf32x3.h"

#ifndef VECTOR
#define VECTOR 1  // 0: rows of x, weight, residual or y do not begin at multiples of 16 bytes
#endif
#ifndef PAIRS
#define PAIRS 0
#endif
constexpr int E = 16 / sizeof(scalar_t);  // elements in 16 bytes
constexpr int THREADS = 32 * WARPS;
constexpr int GROUP = E / 2;              // 8 outputs each, of which a thread holds E neighbours

// A piece is 64 bytes of channels of 8 rows, 512 bytes of shared memory. Lane 4g + t asks for 16 bytes of row g.
__device__ __forceinline__ void fetch(uint4* piece, int lane, const scalar_t* from, int left) {
    uint4* to = piece + (lane ^ lane / 8);
#if VECTOR
    cp_async_16(to, from, left > 0);
#else
    for (int e = 0; e < E; ++e) ((scalar_t*)to)[e] = e < left ? from[e] : (scalar_t)0.0f;
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
pointwise(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
          const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, int N, int C, int O, int pixels, float low, float high) {
    extern __shared__ uint4 pieces[];
    const int chunks = (C - 1) / (4 * E) + 1;
    const int P = N * pixels, o0 = blockIdx.x * BN;
    const int row = PAIRS ? (C + 15) / 16 * 16 : C;  // of weight
    [[maybe_unused]] const float scale = PAIRS ? (float)weight[O * row] : 1.0f, unscale = PAIRS ? (float)weight[O * row + 1] : 1.0f;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
    uint4* const weights = pieces;                                                                          // [chunks][BN / 8][32]
    uint4* const rows = pieces + (chunks * (BN / 8) + warp * STAGES * chunks * 2 * TM) * 32;  // [STAGES][chunks][2 * TM][32]

#pragma unroll 1
    for (int i = warp; i < chunks * (BN / 8); i += WARPS) {
        const int n = i % (BN / 8), k = (i / (BN / 8) * 4 + t) * E;
        const int o = o0 + n / GROUP * (4 * E) + g / 2 * E + n % GROUP * 2 + g % 2;  // d's columns become a thread's neighbours
        fetch(weights + i * 32, lane, weight + (o < O ? o * row + k : 0), o < O ? row - k : 0);
    }
    cp_async_commit();

    const int tiles = (P - 1) / (16 * TM) + 1, step = gridDim.y * WARPS;
    auto ahead = [&](int tile, int stage) {
        if (tile < tiles) {
            const scalar_t* from[2 * TM];
#pragma unroll
            for (int m = 0; m < 2 * TM; ++m) {
                const int p = tile * 16 * TM + 8 * m + g;
                from[m] = x + (p < P ? p : P - 1) * C + t * E;
            }
#pragma unroll 1
            for (int c = 0; c < chunks; ++c)
#pragma unroll
                for (int m = 0; m < 2 * TM; ++m)
                    fetch(rows + ((stage * chunks + c) * 2 * TM + m) * 32, lane, from[m] + c * 4 * E, C - (4 * c + t) * E);
        }
        cp_async_commit();
    };
    // where a lane's row lies in a piece: of weight, in the matrices 0 … 3 of 16 bytes; of x, in 0, 0, 1, 1, of rows 0 … 7 and 8 … 15
    const int w_place = 4 * (lane % 8) + (lane / 8 ^ lane % 8 / 2);
    const int x_place = lane / 8 % 2 * 32 + 4 * (lane % 8) + (lane / 16 ^ lane % 8 / 2);
    int tile = blockIdx.y * WARPS + warp;
#pragma unroll 1
    for (int s = 0; s < STAGES - 1; ++s) ahead(tile + s * step, s);
    cp_async_wait<STAGES - 1>();
    __syncthreads();  // the weights are here

    for (int stage = 0; tile < tiles; tile += step, stage = stage + 1 < STAGES ? stage + 1 : 0) {
        __syncwarp();
        ahead(tile + (STAGES - 1) * step, stage > 0 ? stage - 1 : STAGES - 1);
        cp_async_wait<STAGES - 1>();
        __syncwarp();
        const uint4* const now = rows + stage * chunks * 2 * TM * 32;
        const int first = (tile * 16 * TM + g) * O + o0 + t * E;  // of y, and of residual; a row of 8 further: + 8·O
#pragma unroll 1
        for (int n = 0; n < BN / 8 && o0 + 8 * n < O; n += GROUP) {
            const int o = o0 + 8 * n + t * E;
            float acc[TM][GROUP][4], b[E];
            get<VECTOR>(b, bias + o, bias ? O - o : 0);
#pragma unroll
            for (int m = 0; m < 2 * TM; ++m)
#pragma unroll
                for (int e = 0; e < E; ++e) acc[m / 2][e / 2][m % 2 * 2 + e % 2] = b[e];
#pragma unroll 1
            for (int c = 0; c < chunks; ++c) {
                unsigned b[GROUP][4];
#pragma unroll
                for (int j = 0; j < GROUP; ++j) ldmatrix_x4(b[j], weights + (c * (BN / 8) + n + j) * 32 + w_place);
                if constexpr (PAIRS) {
                    unsigned a[TM][4], a_low[TM][4];
#pragma unroll
                    for (int m = 0; m < TM; ++m) {
                        unsigned first[4], second[4];
                        ldmatrix_x4(first, now + (c * 2 * TM + 2 * m) * 32 + x_place);
                        ldmatrix_x4(second, now + (c * 2 * TM + 2 * m) * 32 + (x_place ^ 2));
                        split_fragment(a[m], a_low[m], first, second, scale);
                    }
                    float part[TM][GROUP][4] = {};
                    mma_halves(part, a, a_low, b);
                    add_scaled(acc, part, unscale);
                    continue;
                }
#pragma unroll
                for (int s = 0; s < 2; ++s)
                    if ((4 * c + 2 * s) * E < C) {
#pragma unroll
                        for (int m = 0; m < TM; ++m) {
                            unsigned a[4];
                            ldmatrix_x4(a, now + (c * 2 * TM + 2 * m) * 32 + (s ? x_place ^ 2 : x_place));
#pragma unroll
                            for (int j = 0; j < GROUP; ++j) multiply<scalar_t>(acc[m][j], a, {b[j][2 * s], b[j][2 * s + 1]});
                        }
                    }
            }
#pragma unroll
            for (int m = 0; m < 2 * TM; ++m) {
                const int left = tile * 16 * TM + 8 * m + g < P ? O - o : 0, i = first + 8 * n + m * 8 * O;
                float out[E], more[E] = {};
                if (residual) get<VECTOR>(more, residual + i, left);
#pragma unroll
                for (int e = 0; e < E; ++e) out[e] = clamp(acc[m / 2][e / 2][m % 2 * 2 + e % 2] + more[e], low, high);
                put<VECTOR>(y + i, out, left);
            }
        }
    }
}
