// gemm, rung 12 "warpgroups": Hopper's wgmma, 64×BN×16 by four warps at once, reads A and B where they lie in shared memory.
// requires: sm_80
//
// Compiled for sm_90a; on other cards wgmma.h computes the same one by one, which is for tests. A warpgroup has 64 rows of C.
//
// Moves   what rung 9 does into shared memory, and nothing from there into registers: the products read it, a warpgroup its rows
//         of A and all of B: (BM + BN·BM/64)/4 wavefronts for 16 products deep, 192 for 256×128, where warps of 64×64 ask for 256.
// Gains   a product runs by itself, so while one does the warps begin the next copies; registers hold sums alone, and the loop
//         has four instructions for the products of a slice.
// Costs   of STAGES slices two are held by products: nobody may copy to one before all warpgroups have waited for their products
//         with it, which is known a barrier later. Runs on no other card, not even on later ones.
#include "swizzle.h"
#include "vec.h"
#include "wgmma.h"

#ifndef TRANSPOSE_B
#define TRANSPOSE_B 0
#endif
#ifndef VECTOR
#define VECTOR 8  // elements that a copy moves: rows begin at multiples of so many. 8 and 2 by cp.async, 1 by hand
#endif
#define THREADS (BM / WM * 32)
static_assert(BK == 64 && WM == 16 && WN == BN, "a warpgroup has 64×BN of C, each of its warps 16 rows; wgmma reads rows of 128 bytes");

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const scalar_t* __restrict__ A, const scalar_t* __restrict__ B, const scalar_t* __restrict__ bias, scalar_t* __restrict__ C,
     int M, int N, int K, float low, float high) {
    extern __shared__ __align__(1024) scalar_t tiles[];  // the exchange of pieces goes by the bits of the address
    scalar_t* const As = tiles;                     // [STAGES][BM][BK]
    scalar_t* const Bs = tiles + STAGES * BM * BK;  // [STAGES][BN / 64][BK][64], with TRANSPOSE_B [STAGES][BN][BK]

    // Blocks that run at the same time shall read the same rows of A and columns of B: GROUP rows of tiles, column by column.
    const int tiles_m = (M - 1) / BM + 1, tiles_n = (N - 1) / BN + 1;
    const int first = blockIdx.x / (GROUP * tiles_n) * GROUP, in_group = blockIdx.x % (GROUP * tiles_n);
    const int group = tiles_m - first < GROUP ? tiles_m - first : GROUP;
    const int row0 = (first + in_group % group) * BM, col0 = in_group / group * BN;

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    auto fetch_slice = [&](int slice) {
        scalar_t *a = As + slice % STAGES * (BM * BK), *b = Bs + slice % STAGES * (BK * BN);
        fetch<BM, 64, THREADS, VECTOR>(a, A, row0, slice * BK, M, K);
        if (TRANSPOSE_B) fetch<BN, 64, THREADS, VECTOR>(b, B, col0, slice * BK, N, K);
        else
#pragma unroll
            for (int j = 0; j < BN; j += 64) fetch<BK, 64, THREADS, VECTOR>(b + j * BK, B, slice * BK, col0 + j, K, N);
    };

    float acc[BN / 8][4] = {};
    const int slices = (K - 1) / BK + 1;
#pragma unroll
    for (int slice = 0; slice < STAGES - 2; ++slice) {
        if (slice < slices) fetch_slice(slice);
        cp_async_commit();  // a group a slice, empty ones too, so that counting groups is counting slices
    }

    for (int slice = 0; slice < slices; ++slice) {
        cp_async_wait<STAGES - 3>();  // this slice is here,
        async_fence();                // for wgmma as well,
        __syncthreads();              // all parts of it; and all products but those with the last slice are done
        const scalar_t *a = As + slice % STAGES * (BM * BK) + warp / 4 * 64 * BK, *b = Bs + slice % STAGES * (BK * BN);
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < BK; k += 16) wgmma<BN, !TRANSPOSE_B>(acc, a + k, TRANSPOSE_B ? b + k : b + k * 64, BK * 64);
        wgmma_commit();
        if (slice + STAGES - 2 < slices) fetch_slice(slice + STAGES - 2);
        cp_async_commit();
        wgmma_wait<1>();  // for those with the last slice: the ones just begun go on
    }

    // C goes out by way of shared memory, where lanes with 2 neighbours each put together rows that are stored 8 at a time.
    wgmma_wait<0>();
    cp_async_wait<0>();
    __syncthreads();  // nobody reads slices any more
#pragma unroll
    for (int j = 0; j < BN / 8; ++j) {
        const int col = j * 8 + lane % 4 * 2;
        float v[2], add[2] = {};
        for (int e = 0; e < 2; ++e)
            if (bias && col + e < N - col0) add[e] = (float)bias[col0 + col + e];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            for (int e = 0; e < 2; ++e) v[e] = clamp(acc[j][i * 2 + e] + add[e], low, high);
            store(at<64>(tiles + col / 64 * (BM * 64), warp * 16 + i * 8 + lane / 4, col % 64 / 8 * 8) + col % 8, v);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < BM * BN / 8; i += THREADS) {
        const int row = i / (BN / 8), col = i % (BN / 8) * 8;
        const scalar_t* from = at<64>(tiles + col / 64 * (BM * 64), row, col % 64);
        scalar_t* to = C + ((size_t)row0 + row) * N + col0 + col;
        if (row >= M - row0) break;
        if (VECTOR == 8 && col < N - col0) *(uint4*)to = *(const uint4*)from;
        if (VECTOR < 8)
            for (int e = 0; e < 8 && col + e < N - col0; ++e) to[e] = from[e];
    }
}
