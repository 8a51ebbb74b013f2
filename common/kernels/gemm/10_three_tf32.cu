// gemm, rung 10 "three_tf32": fp32 products as three products of TF32 parts on tensor cores, with fp32's accuracy.
// requires: sm_80
//
// The tiles and the ring are rung 9's. tf32x3.h says how three products make one, and why the sums of the tensor cores are those
// of 8 products, which FADD adds to the rest.
//
// Moves   what rung 9 does, 4 bytes an element. 3·M·N·K multiply-adds in TF32, at half the rate of fp16; for a warp's 64×32×8
//         that is 48 mma, and 24 values a lane to split, 3 instructions each.
// Gains   3 TF32 products cost less than one FMA on cards whose tensor cores multiply TF32 at more than 3 times the rate of
//         FMA units. With Bᵀ all fragments come by ldmatrix, which is faster.
// Costs   three times the sums, fragments and splits in registers, so smaller warps than rung 9's. An infinity
//         times anything becomes NaN, as its small part is ∞ − ∞.
#include "swizzle.h"
#include "tf32x3.h"
#include "vec.h"

#ifndef TRANSPOSE_B
#define TRANSPOSE_B 0
#endif
#ifndef VECTOR
#define VECTOR 4  // elements that a copy moves: rows begin at multiples of so many
#endif
#define PITCH (TRANSPOSE_B ? BN : BN + 8)  // of a row of B: 4 rows of 8 columns lie in 32 different banks
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
    unsigned a[2][WM / 16][4], b[2][WN / 8][2];  // the fragments in use, and the next ones
    auto load_fragments = [&](int to, int slice, int k) {
        scalar_t *as = As + slice % STAGES * (BM * BK), *bs = Bs + slice % STAGES * (BK * PITCH);
#pragma unroll
        for (int i = 0; i < WM / 16; ++i) ldmatrix_x4(a[to][i], at<BK>(as, warp_row + i * 16 + lane % 16, k + lane / 16 * 4));
#pragma unroll
        for (int j = 0; j < WN / 8; j += 2) {
            unsigned two[4];  // b of two neighbours
            if (TRANSPOSE_B) ldmatrix_x4(two, at<BK>(bs, warp_col + j * 8 + lane / 16 * 8 + lane % 8, k + lane / 8 % 2 * 4));
            else  // ldmatrix transposes halves, not floats
                for (int r = 0; r < 4; ++r)
                    two[r] = __float_as_uint(bs[b_place + (k + r % 2 * 4) * PITCH + j * 8 + r / 2 * 8]);
            b[to][j][0] = two[0], b[to][j][1] = two[1], b[to][j + 1][0] = two[2], b[to][j + 1][1] = two[3];
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
    load_fragments(0, 0, 0);

    for (int slice = 0; slice < slices; ++slice) {
#pragma unroll
        for (int k = 0; k < BK; k += 8) {
            float sum[WM / 16][WN / 8][4] = {};  // of this step
            const int now = k / 8 % 2;
            if (k + 8 < BK) load_fragments(1 - now, slice, k + 8);
            else if (slice + 1 < slices) {
                cp_async_wait<STAGES - 2>();  // the next slice is here,
                __syncthreads();              // all parts of it; and nobody reads the one before this any more
                load_fragments(1 - now, slice + 1, 0);
            }
            if (k == 0) {
                if (slice + STAGES - 1 < slices) fetch_slice(slice + STAGES - 1);
                cp_async_commit();
            }
            unsigned b_small[WN / 8][2];
#pragma unroll
            for (int j = 0; j < WN / 8; ++j) split(b[now][j], b_small[j]);
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {  // the small products first; a sum is used again WM/16·WN/8 mma later
                unsigned a_small[4];
                split(a[now][i], a_small);
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) mma_tf32(sum[i][j], a_small, b[now][j]);
            }
#pragma unroll
            for (int product = 1; product < 3; ++product)
#pragma unroll
                for (int i = 0; i < WM / 16; ++i)
#pragma unroll
                    for (int j = 0; j < WN / 8; ++j) mma_tf32(sum[i][j], a[now][i], product == 1 ? b_small[j] : b[now][j]);
#pragma unroll
            for (int i = 0; i < WM / 16; ++i)
#pragma unroll
                for (int j = 0; j < WN / 8; ++j)
                    for (int r = 0; r < 4; ++r) acc[i][j][r] += sum[i][j][r];
        }
    }
#pragma unroll
    for (int i = 0; i < WM / 16 * (WN / 8) * 4; ++i) {  // what tensor cores truncated, of all sums at once
        float& a = acc[i / 4 / (WN / 8)][i / 4 % (WN / 8)][i % 4];
        a = fmaf(a, CUT, a);
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
