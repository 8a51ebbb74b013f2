// pointwise, rung 5 "split_k": for few pixels. WARPS_K warps share the channels of a sum, each with its own shared memory.
// requires: sm_80
//
//   x (P, C), weight (O, C), y and residual (P, O): NHWC. A block computes BM×BN = 16·TM·WARPS_M × 8·TN, a small tile, so
//   that even 49 pixels give many blocks. A warp takes every WARPS_K-th part of the channels, UNROLL pieces of 64 bytes.
//
// Moves   P·O·C·(1/BM + 1/BN) elements from the L2 cache, several times what rung 4 moves. With few pixels that is little:
//         7×7, 960→160 channels in fp16 are 40 blocks that load 61 KB each.
// Gains   latency: a warp requests all that it needs in one go and waits once. It shares its memory with no other warp, so
//         there is no barrier before the warps' sums are added. Chains of mma are WARPS_K times shorter, and so are the
//         sums, so fewer roundings add up.
// Costs   the warps' sums meet in shared memory: one barrier, and WARPS_K numbers per output. With many pixels the small
//         tiles move too many bytes.
// PAIRS   as in rung 4.
// FMA     fp32 without tensor cores: a lane has the outputs that mma would give it, and reads their rows 16 bytes at a time.
#include "pair_of_halves.h"
#include "tf32x3.h"
#include "vec.h"

#ifndef VECTOR
#define VECTOR 1  // 0: rows of x, weight, residual or y do not begin at multiples of 16 bytes
#endif
#ifndef PAIRS
#define PAIRS 0
#endif
#ifndef FMA
#define FMA 0
#endif
constexpr int E = 16 / sizeof(scalar_t);            // elements in 16 bytes
constexpr int BM = 16 * TM * WARPS_M, BN = 8 * TN;  // pixels and outputs of a block
constexpr int THREADS = 32 * WARPS_M * WARPS_K;
constexpr int ROWS = 2 * TM + TN;                             // of 8 pixels or 8 outputs, that a warp reads
constexpr int SHARE = BM * BN / THREADS;                      // outputs for each thread, or 0 if there are more threads
constexpr int V = SHARE >= E ? E : SHARE >= 4 ? 4 : SHARE >= 2 ? 2 : 1;  // neighbours that a thread adds up and stores
constexpr int PARTS = (BM * BN / V - 1) / THREADS + 1;            // so often

// 16 bytes of one of the 8 rows of a group in a warp's tile.
__device__ __forceinline__ uint4 of(const uint4* tile, int group, int row, int piece) {
    return tile[group * 32 + 4 * row + (piece ^ row / 2)];
}

__device__ __forceinline__ void add_products(float& sum, const uint4& a, const uint4& b) {
#pragma unroll
    for (int e = 0; e < E; ++e) sum = fmaf((float)((const scalar_t*)&a)[e], (float)((const scalar_t*)&b)[e], sum);
}

extern "C" __global__ void __launch_bounds__(THREADS)
pointwise(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
          const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, int N, int C, int O, int pixels, float low, float high) {
    extern __shared__ uint4 tiles[];  // [WARPS_M * WARPS_K][UNROLL][ROWS][32], and behind them the sums of each warp
    float (*const sums)[BM][BN + 8] = (float (*)[BM][BN + 8])(tiles + WARPS_M * WARPS_K * UNROLL * ROWS * 32);  // [WARPS_K]
    const int P = N * pixels;
    const int p0 = (blockIdx.z * gridDim.y + blockIdx.y) * BM, o0 = blockIdx.x * BN;
    if (p0 < 0 || p0 >= P) return;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int warp = threadIdx.x / 32, warp_k = warp % WARPS_K, warp_m = warp / WARPS_K;
    uint4* const tile = tiles + warp * (UNROLL * ROWS * 32);
    const int row_w = PAIRS ? (C + 15) / 16 * 16 : C;  // of weight
    [[maybe_unused]] const float scale = PAIRS ? (float)weight[O * row_w] : 1.0f;
    [[maybe_unused]] const float unscale = PAIRS ? (float)weight[O * row_w + 1] : 1.0f;

    const scalar_t* from[ROWS];  // rows beyond the last are the last: their results are not stored
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const int row = r < TN ? o0 + 8 * r + g : p0 + 16 * TM * warp_m + 8 * (r - TN) + g, rows = r < TN ? O : P;
        from[r] = (r < TN ? weight : x) + (row < rows ? row : rows - 1) * (r < TN ? row_w : C) + (warp_k * UNROLL * 4 + t) * E;
    }

    float acc[TM][TN][4] = {};
    float out[PARTS][V] = {}, more[PARTS][V] = {};
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        const int unit = part * THREADS + threadIdx.x;
        const int p = p0 + unit / (BN / V), o = o0 + unit % (BN / V) * V;
        if (unit < BM * BN / V && p < P && o < O) {
#if VECTOR
            if (bias) load(out[part], bias + o);
            if (residual) load(more[part], residual + p * O + o);
#else
            for (int e = 0; e < V && o + e < O; ++e) {
                if (bias) out[part][e] = (float)bias[o + e];
                if (residual) more[part][e] = (float)residual[p * O + o + e];
            }
#endif
        }
    }
#pragma unroll 1
    for (int k = warp_k * UNROLL * 4 * E; k < C; k += WARPS_K * UNROLL * 4 * E) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                uint4* to = &tile[(u * ROWS + r) * 32 + (lane ^ lane / 8)];
                const scalar_t* piece = from[r] + 4 * u * E;
                const int end = r < TN ? row_w : C;
#if VECTOR
                cp_async_16(to, piece, k + (4 * u + t) * E < end);
#else
                for (int e = 0; e < E; ++e) ((scalar_t*)to)[e] = k + (4 * u + t) * E + e < end ? piece[e] : (scalar_t)0.0f;
#endif
            }
        cp_async_commit();
#pragma unroll
        for (int r = 0; r < ROWS; ++r) from[r] += WARPS_K * UNROLL * 4 * E;
        cp_async_wait<0>();
        __syncwarp();
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            [[maybe_unused]] unsigned b[TN][4];
            if constexpr (!FMA) {
#pragma unroll
                for (int n = 0; n < TN; ++n) ldmatrix_x4(b[n], &tile[(u * ROWS + n) * 32 + 4 * (lane % 8) + (lane / 8 ^ lane % 8 / 2)]);
            }
            if constexpr (FMA) {
#pragma unroll
                for (int piece = 0; piece < 4; ++piece) {
                    uint4 column[TN][2];
#pragma unroll
                    for (int i = 0; i < 2 * TN; ++i) column[i / 2][i % 2] = of(tile, u * ROWS + i / 2, 2 * t + i % 2, piece);
#pragma unroll
                    for (int r = 0; r < 2 * TM; ++r) {
                        const uint4 row = of(tile, u * ROWS + TN + r, g, piece);
#pragma unroll
                        for (int i = 0; i < 2 * TN; ++i) add_products(acc[r / 2][i / 2][r % 2 * 2 + i % 2], row, column[i / 2][i % 2]);
                    }
                }
            } else if constexpr (PAIRS) {
                unsigned a[TM][4], a_low[TM][4];
#pragma unroll
                for (int m = 0; m < TM; ++m) {
                    const uint4* rows = &tile[(u * ROWS + TN + 2 * m + lane / 8 % 2) * 32 + 4 * (lane % 8)];
                    unsigned first[4], second[4];
                    ldmatrix_x4(first, rows + (lane / 16 ^ lane % 8 / 2));
                    ldmatrix_x4(second, rows + ((2 + lane / 16) ^ lane % 8 / 2));
                    split_fragment(a[m], a_low[m], first, second, scale);
                }
                float part[TM][TN][4] = {};
                mma_halves(part, a, a_low, b);
                add_scaled(acc, part, unscale);
            } else {
#pragma unroll
                for (int m = 0; m < TM; ++m)
#pragma unroll
                    for (int s = 0; s < 2; ++s) {
                        unsigned a[4];
                        ldmatrix_x4(a, &tile[(u * ROWS + TN + 2 * m + lane / 8 % 2) * 32 + 4 * (lane % 8) + ((2 * s + lane / 16) ^ lane % 8 / 2)]);
#pragma unroll
                        for (int n = 0; n < TN; ++n)
                            multiply<scalar_t>(acc[m][n], a, {b[n][2 * s], b[n][2 * s + 1]});
                    }
            }
        }
    }

#pragma unroll
    for (int m = 0; m < TM; ++m)
#pragma unroll
        for (int n = 0; n < TN; ++n)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float* to = &sums[warp_k][16 * (TM * warp_m + m) + 8 * half + g][8 * n + 2 * t];
                *(float2*)to = make_float2(acc[m][n][2 * half], acc[m][n][2 * half + 1]);
            }
    __syncthreads();
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        const int unit = part * THREADS + threadIdx.x, row = unit / (BN / V), col = unit % (BN / V) * V;
        const int p = p0 + row, o = o0 + col;
        if (unit < BM * BN / V && p < P && o < O) {
#pragma unroll
            for (int e = 0; e < V; ++e) {
                float v = out[part][e] + more[part][e];
#pragma unroll
                for (int w = 0; w < WARPS_K; ++w) v += sums[w][row][col + e];
                out[part][e] = clamp(v, low, high);
            }
#if VECTOR
            store(y + p * O + o, out[part]);
#else
            for (int e = 0; e < V && o + e < O; ++e) y[p * O + o + e] = (scalar_t)out[part][e];
#endif
        }
    }
}
