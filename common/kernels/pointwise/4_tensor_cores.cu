// pointwise, rung 4 "tensor_cores": tiles in shared memory as in rung 3, multiplied by mma, with STAGES slices in the ring.
// requires: sm_80
//
//   x (P, C), P the pixels of all images, weight (O, C), y and residual (P, O): NHWC. A block computes BM×BN, a warp WM×WN.
//   Both operands have their channels innermost, which is the layout of mma: no tile is transposed any more.
//
// Moves   P·O·C·(1/BM + 1/BN) elements from the L2 cache by cp.async, and P·O·C·(1/WM + 1/WN) from shared memory to
//         registers by ldmatrix, which loads 32 bytes of channels of 16 rows: 16 halves or 8 floats, one mma deep.
// Gains   fp16: 2,048 multiply-adds per instruction. fp32: each number is split into two that TF32 can hold, and three of
//         the four products give nearly fp32's accuracy (3xTF32), still faster than FMA. The sums begin with the bias,
//         loaded with the first slices. The rows of weight are permuted such that a thread's outputs are neighbours, so y
//         leaves in 16-byte stores without a pass through shared memory: the columns of a product may have any order.
// Costs   BK is 128 bytes, and short rows are filled up with zeros: 16 channels of fp16 to 64. A small y has few tiles, and
//         each block walks through all channels alone. fp32: an infinity becomes NaN, and the sums of each mma are added by FADD;
//         tf32x3.h says why.
// PAIRS   fp32 whose range is known: numbers as pairs of halves, three products of those, which is half the mma. weight is then
//         what Halves.of makes of it: rows of 16·n words, split already, and behind the last the scale of x and what undoes both.
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
constexpr int BK = 8 * E;                 // a row of a tile has 128 bytes
constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int TM = WM / 16, TN = WN / 8;
constexpr int GROUP = E / 2;              // 8 outputs each, of which a thread holds E neighbours
constexpr int ROWS = ((BM + BN) * 8 - 1) / THREADS + 1;  // of the tiles, of which a thread copies 16 bytes each

extern "C" __global__ void __launch_bounds__(THREADS)
pointwise(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
          const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, int N, int C, int O, int pixels, float low, float high) {
    extern __shared__ uint4 tiles[];  // [STAGES][BM rows of x, BN of weight][8]
    const int P = N * pixels;
    const int p0 = (blockIdx.z * gridDim.y + blockIdx.y) * BM, o0 = blockIdx.x * BN;
    if (p0 < 0 || p0 >= P) return;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int warp_row = threadIdx.x / 32 / (BN / WN) * WM, warp_col = threadIdx.x / 32 % (BN / WN) * WN;
    const int slices = (C - 1) / BK + 1;
    const int row = PAIRS ? (C + 15) / 16 * 16 : C;  // of weight
    [[maybe_unused]] const float scale = PAIRS ? (float)weight[O * row] : 1.0f, unscale = PAIRS ? (float)weight[O * row + 1] : 1.0f;

    // A thread copies unit u, 16 bytes, of ROWS rows. It lies in place u ^ r % 8 of row r, so that 8 rows below each other lie apart.
    const int r0 = threadIdx.x / 8, u = threadIdx.x % 8;
    const scalar_t* from[ROWS];  // rows beyond the last are the last: their results are not stored
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const int r = r0 + i * (THREADS / 8), n = r - BM;
        const int o = o0 + n / (4 * E) * (4 * E) + n % 8 / 2 * E + n / 8 % GROUP * 2 + n % 2;  // d's columns become neighbours
        from[i] = r < BM ? x + min(p0 + r, P - 1) * C + u * E : weight + min(o, O - 1) * row + u * E;
    }
    auto fetch_slice = [&](int slice, int stage) {
        uint4* to = tiles + stage * ((BM + BN) * 8) + r0 * 8 + (u ^ r0 % 8);
#pragma unroll
        for (int i = 0; i < ROWS; ++i, to += THREADS) {
            const int left = (PAIRS && r0 + i * (THREADS / 8) >= BM ? row : C) - slice * BK - u * E;
            if ((BM + BN) * 8 % THREADS == 0 || r0 + i * (THREADS / 8) < BM + BN) {
#if VECTOR
                cp_async_16(to, from[i], left > 0);
#else
                for (int e = 0; e < E; ++e) ((scalar_t*)to)[e] = e < left ? from[i][e] : (scalar_t)0.0f;
#endif
                from[i] += BK;
            }
        }
        cp_async_commit();
    };
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) fetch_slice(s, s);

    float acc[TM][TN][4];  // begins as the bias, which arrives while the first slices do
#pragma unroll
    for (int n = 0; n < TN; n += GROUP) {
        const int o = o0 + warp_col + 8 * n + t * E;
        float b[E];
        get<VECTOR>(b, bias + o, bias ? O - o : 0);
#pragma unroll
        for (int m = 0; m < 2 * TM; ++m)
#pragma unroll
            for (int e = 0; e < E; ++e) acc[m / 2][n + e / 2][m % 2 * 2 + e % 2] = b[e];
    }

    for (int slice = 0, stage = 0; slice < slices; ++slice, stage = stage + 1 < STAGES ? stage + 1 : 0) {
        cp_async_wait<STAGES - 2>();
        __syncthreads();
        fetch_slice(slice + STAGES - 1, stage > 0 ? stage - 1 : STAGES - 1);
        const uint4 *xs = tiles + stage * ((BM + BN) * 8), *ws = xs + BM * 8;
        if constexpr (PAIRS) {
#pragma unroll
            for (int k = 0; k < 8; k += 4) {  // 64 bytes of channels, the depth of an mma of halves
                unsigned a[TM][4], a_low[TM][4], b[TN][4];
                float part[TM][TN][4] = {};
#pragma unroll
                for (int m = 0; m < TM; ++m) {
                    const uint4* rows = xs + (warp_row + 16 * m + lane % 16) * 8;
                    unsigned first[4], second[4];
                    ldmatrix_x4(first, rows + ((k + lane / 16) ^ lane % 8));
                    ldmatrix_x4(second, rows + ((k + 2 + lane / 16) ^ lane % 8));
                    split_fragment(a[m], a_low[m], first, second, scale);
                }
#pragma unroll
                for (int n = 0; n < TN; ++n) ldmatrix_x4(b[n], ws + (warp_col + 8 * n + lane % 8) * 8 + ((k + lane / 8) ^ lane % 8));
                mma_halves(part, a, a_low, b);
                add_scaled(acc, part, unscale);
            }
            continue;
        }
#pragma unroll
        for (int k = 0; k < 8; k += 2) {  // 32 bytes of channels, the depth of an mma
            unsigned a[TM][4], b[TN][2];
#pragma unroll
            for (int m = 0; m < TM; ++m) ldmatrix_x4(a[m], xs + (warp_row + 16 * m + lane % 16) * 8 + ((k + lane / 16) ^ lane % 8));
#pragma unroll
            for (int n = 0; n < TN; n += 2) {
                unsigned two[4];  // b of two neighbours
                ldmatrix_x4(two, ws + (warp_col + 8 * n + lane / 16 * 8 + lane % 8) * 8 + ((k + lane / 8 % 2) ^ lane % 8));
                b[n][0] = two[0], b[n][1] = two[1], b[n + 1][0] = two[2], b[n + 1][1] = two[3];
            }
#pragma unroll
            for (int m = 0; m < TM; ++m)
#pragma unroll
                for (int n = 0; n < TN; ++n) multiply<scalar_t>(acc[m][n], a[m], b[n]);
        }
    }

#pragma unroll
    for (int m = 0; m < 2 * TM; ++m)
#pragma unroll
        for (int n = 0; n < TN; n += GROUP) {
            const int p = p0 + warp_row + 8 * m + g, o = o0 + warp_col + 8 * n + t * E;
            float out[E], more[E] = {};
            if (residual) get<VECTOR>(more, residual + p * O + o, p < P ? O - o : 0);
#pragma unroll
            for (int e = 0; e < E; ++e) out[e] = clamp(acc[m / 2][n + e / 2][m % 2 * 2 + e % 2] + more[e], low, high);
            if (p < P) put<VECTOR>(y + p * O + o, out, O - o);
        }
}
