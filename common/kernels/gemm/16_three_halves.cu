// gemm, rung 16 "three_halves": fp32 products as three products of halves, for numbers whose range the caller knows.
// requires: sm_80
//
// Rung 10 with other parts: a number times a power of two is high + low, two halves, where rung 10 has two TF32 numbers.
// pair_of_halves.h says what the powers must do. A's and B's are A_SCALE and B_SCALE, constants of the compilation.
//
// Moves   what rung 10 does. 3·M·N·K multiply-adds in fp16: for a warp's 64×32×16 that is 48 mma, where rung 10 has 96.
// Gains   an mma of halves has 16 products where one of TF32 has 8, in the same time: half the tensor cores' time. Their sums
//         have 16 terms, so a quarter of rung 10's truncations.
// Costs   a bound on A and B. 48 values a lane to split for those 48 mma, 4 instructions each, in every warp that reads them;
//         and 64 FMA that add up the sums.
#include "pair_of_halves.h"
#include "swizzle.h"
#include "vec.h"

#ifndef TRANSPOSE_B
#define TRANSPOSE_B 0
#endif
#ifndef VECTOR
#define VECTOR 4  // elements that a copy moves: rows begin at multiples of so many
#endif
#define PITCH (TRANSPOSE_B ? BN : BN + 8)  // of a row of B: 4 rows of 8 columns lie in 32 different banks
#ifndef A_SCALE
#define A_SCALE 1.0f  // powers of two: |A · A_SCALE| and |B · B_SCALE| stay below 65,520
#define B_SCALE 1.0f
#endif
#define THREADS (BM / WM * (BN / WN) * 32)

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const scalar_t* __restrict__ A, const scalar_t* __restrict__ B, const scalar_t* __restrict__ bias, scalar_t* __restrict__ C,
     int M, int N, int K, float low, float high) {
    extern __shared__ __align__(128) scalar_t tiles[];
    scalar_t* const As = tiles;                     // [STAGES][BM][BK]
    scalar_t* const Bs = tiles + STAGES * BM * BK;  // [STAGES][BK][PITCH], with TRANSPOSE_B [STAGES][BN][BK]

    // Blocks that run at the same time shall read the same rows of A and columns of B: GROUP rows of tiles, column by column.
    const int tiles_m = (M - 1) / BM + 1, tiles_n = (N - 1) / BN + 1;
    const int first = blockIdx.x / (GROUP * tiles_n) * GROUP, in_group = blockIdx.x % (GROUP * tiles_n);
    const int group = tiles_m - first < GROUP ? tiles_m - first : GROUP;
    const int row0 = (first + in_group % group) * BM, col0 = in_group / group * BN;

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_row = warp / (BN / WN) * WM, warp_col = warp % (BN / WN) * WN;

    auto fetch_slice = [&](int slice) {
        scalar_t *a = As + slice % STAGES * (BM * BK), *b = Bs + slice % STAGES * (BK * PITCH);
        fetch<BM, BK, THREADS, VECTOR>(a, A, row0, slice * BK, M, K);
        if (TRANSPOSE_B) fetch<BN, BK, THREADS, VECTOR>(b, B, col0, slice * BK, N, K);
        else fetch<BK, BN, THREADS, VECTOR, PITCH - BN>(b, B, slice * BK, col0, K, N);
    };
    const int b_place = lane % 4 * PITCH + warp_col + lane / 4;  // of row t, column g, if B is not transposed
    unsigned a[WM / 16][4], a_low[WM / 16][4], b[WN / 8][4];  // of b two registers of high and two of low
    auto load_fragments = [&](int slice, int k) {
        scalar_t *as = As + slice % STAGES * (BM * BK), *bs = Bs + slice % STAGES * (BK * PITCH);
#pragma unroll
        for (int i = 0; i < WM / 16; ++i) {
            unsigned first[4], second[4];
            ldmatrix_x4(first, at<BK>(as, warp_row + i * 16 + lane % 16, k + lane / 16 * 4));
            ldmatrix_x4(second, at<BK>(as, warp_row + i * 16 + lane % 16, k + 8 + lane / 16 * 4));
            split_fragment(a[i], a_low[i], first, second, A_SCALE);
        }
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) {
            unsigned four[4];  // rows t, t + 4, t + 8, t + 12 of column g: the order that a has
            if (TRANSPOSE_B) ldmatrix_x4(four, at<BK>(bs, warp_col + j * 8 + lane % 8, k + lane / 8 * 4));
            else  // ldmatrix transposes halves, not floats
                for (int r = 0; r < 4; ++r) four[r] = __float_as_uint(bs[b_place + (k + r * 4) * PITCH + j * 8]);
#pragma unroll
            for (int r = 0; r < 2; ++r)
                split_halves(b[j][r], b[j][r + 2], __uint_as_float(four[2 * r]), __uint_as_float(four[2 * r + 1]), B_SCALE);
        }
    };

    float acc[WM / 16][WN / 8][4] = {};
    const int slices = (K - 1) / BK + 1;
#pragma unroll
    for (int slice = 0; slice < STAGES - 1; ++slice) {
        if (slice < slices) fetch_slice(slice);
        cp_async_commit();  // a group a slice, empty ones too, so that counting groups is counting slices
    }
    cp_async_wait<STAGES - 2>();
    __syncthreads();

    for (int slice = 0; slice < slices; ++slice) {
        if (slice + STAGES - 1 < slices) fetch_slice(slice + STAGES - 1);
        cp_async_commit();
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            float part[WM / 16][WN / 8][4] = {};
            load_fragments(slice, k);
            mma_halves(part, a, a_low, b);
            add_scaled(acc, part, 1.0f / (A_SCALE * B_SCALE));
        }
        cp_async_wait<STAGES - 2>();  // the next slice is here,
        __syncthreads();              // all parts of it; and nobody reads this one any more
    }

    // C goes out by way of shared memory, where lanes with 2 neighbours each put together rows that are stored 4 at a time.
    cp_async_wait<0>();
    __syncthreads();  // nobody reads slices any more
#pragma unroll
    for (int j = 0; j < WN / 8; ++j) {
        const int col = warp_col + j * 8 + lane % 4 * 2;
        float v[2], add[2] = {};
        for (int e = 0; e < 2; ++e)
            if (bias && col + e < N - col0) add[e] = (float)bias[col0 + col + e];
#pragma unroll
        for (int i = 0; i < WM / 8; ++i) {
            for (int e = 0; e < 2; ++e) v[e] = clamp(acc[i / 2][j][i % 2 * 2 + e] + add[e], low, high);
            store(at<BN>(tiles, warp_row + i * 8 + lane / 4, col / 4 * 4) + col % 4, v);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < BM * BN / 4; i += THREADS) {
        const int row = i / (BN / 4), col = i % (BN / 4) * 4;
        const scalar_t* from = at<BN>(tiles, row, col);
        scalar_t* to = C + ((size_t)row0 + row) * N + col0 + col;
        if (row >= M - row0) break;
        if (VECTOR == 4 && col < N - col0) *(uint4*)to = *(const uint4*)from;
        if (VECTOR < 4)
            for (int e = 0; e < 4 && col + e < N - col0; ++e) to[e] = from[e];
    }
}
