// gemm, rung 9 "tensor_cores": fp16 products by mma.sync, 16×8×16 at a time, summed in fp32; BK-slices arrive by cp.async.
// requires: sm_80
//
// A is (M, K), B is (K, N) or, with TRANSPOSE_B, (N, K); C is (M, N); all row-major. A block computes BM×BN, a warp WM×WN.
//
// Moves   M·N·K·(1/BM + 1/BN) elements from L2 into shared memory, M·N·K·(1/WM + 1/WN) from there into registers. For 16
//         products deep 128×128 with warps of 64×64 takes 128 wavefronts of ldmatrix, 64 of copies, and 128 mma.
// Gains   tensor cores: one mma is 2,048 multiply-adds, an FMA instruction of a warp 32. STAGES slices are in flight or in use,
//         so the copies of one have the arithmetic of STAGES − 1 to arrive in; the next fragments are loaded while the present
//         ones multiply.
// Costs   shared memory for STAGES slices: two blocks per SM, of four warps. Half the registers hold sums, so there are no more
//         warps to fill the waits for each mma. Shared memory has 1.5 wavefronts per mma, tensor cores take one clock: at most
//         two thirds of their peak. Operands in fp16 only.
#include "swizzle.h"
#include "vec.h"

#ifndef TRANSPOSE_B
#define TRANSPOSE_B 0
#endif
#ifndef VECTOR
#define VECTOR 8  // elements that a copy moves: rows begin at multiples of so many. 8 and 2 by cp.async, 1 by hand
#endif
#define THREADS (BM / WM * (BN / WN) * 32)

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const scalar_t* __restrict__ A, const scalar_t* __restrict__ B, const scalar_t* __restrict__ bias, scalar_t* __restrict__ C,
     int M, int N, int K, float low, float high) {
    extern __shared__ __align__(128) scalar_t tiles[];
    scalar_t* const As = tiles;                     // [STAGES][BM][BK]
    scalar_t* const Bs = tiles + STAGES * BM * BK;  // [STAGES][BK][BN], with TRANSPOSE_B [STAGES][BN][BK]

    // Blocks that run at the same time shall read the same rows of A and columns of B: GROUP rows of tiles, column by column.
    const int tiles_m = (M - 1) / BM + 1, tiles_n = (N - 1) / BN + 1;
    const int first = blockIdx.x / (GROUP * tiles_n) * GROUP, in_group = blockIdx.x % (GROUP * tiles_n);
    const int group = tiles_m - first < GROUP ? tiles_m - first : GROUP;
    const int row0 = (first + in_group % group) * BM, col0 = in_group / group * BN;

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_row = warp / (BN / WN) * WM, warp_col = warp % (BN / WN) * WN;

    auto fetch_slice = [&](int slice) {
        scalar_t *a = As + slice % STAGES * (BM * BK), *b = Bs + slice % STAGES * (BK * BN);
        fetch<BM, BK, THREADS, VECTOR>(a, A, row0, slice * BK, M, K);
        if (TRANSPOSE_B) fetch<BN, BK, THREADS, VECTOR>(b, B, col0, slice * BK, N, K);
        else fetch<BK, BN, THREADS, VECTOR>(b, B, slice * BK, col0, K, N);
    };
    unsigned a[2][WM / 16][4], b[2][WN / 8][2];  // the fragments in use, and the next ones
    auto load_fragments = [&](int to, int slice, int k) {
        scalar_t *as = As + slice % STAGES * (BM * BK), *bs = Bs + slice % STAGES * (BK * BN);
#pragma unroll
        for (int i = 0; i < WM / 16; ++i) ldmatrix_x4(a[to][i], at<BK>(as, warp_row + i * 16 + lane % 16, k + lane / 16 * 8));
#pragma unroll
        for (int j = 0; j < WN / 8; j += 2) {
            unsigned two[4];  // b of two neighbours
            if (TRANSPOSE_B) ldmatrix_x4(two, at<BK>(bs, warp_col + j * 8 + lane / 16 * 8 + lane % 8, k + lane / 8 % 2 * 8));
            else ldmatrix_x4_trans(two, at<BN>(bs, k + lane % 16, warp_col + j * 8 + lane / 16 * 8));
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
        for (int k = 0; k < BK; k += 16) {
            const int now = k / 16 % 2;
            if (k + 16 < BK) load_fragments(1 - now, slice, k + 16);
            else if (slice + 1 < slices) {
                cp_async_wait<STAGES - 2>();  // the next slice is here,
                __syncthreads();              // all parts of it; and nobody reads the one before this any more
                load_fragments(1 - now, slice + 1, 0);
            }
            if (k == 0) {
                if (slice + STAGES - 1 < slices) fetch_slice(slice + STAGES - 1);
                cp_async_commit();
            }
#pragma unroll
            for (int i = 0; i < WM / 16; ++i)
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) mma_f16(acc[i][j], a[now][i], b[now][j]);
        }
    }

    // C goes out by way of shared memory, where lanes with 2 neighbours each put together rows that are stored 8 at a time.
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
            store(at<BN>(tiles, warp_row + i * 8 + lane / 4, col / 8 * 8) + col % 8, v);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < BM * BN / 8; i += THREADS) {
        const int row = i / (BN / 8), col = i % (BN / 8) * 8;
        const scalar_t* from = at<BN>(tiles, row, col);
        scalar_t* to = C + ((size_t)row0 + row) * N + col0 + col;
        if (row >= M - row0) break;
        if (VECTOR == 8 && col < N - col0) *(uint4*)to = *(const uint4*)from;
        if (VECTOR < 8)
            for (int e = 0; e < 8 && col + e < N - col0; ++e) to[e] = from[e];
    }
}
