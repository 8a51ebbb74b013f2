// gemm, rung 13 "bulk_copies": rung 12, but one thread asks the copy engine for the tiles of a slice, and an mbarrier counts them.
// requires: sm_90
//
// Compiled for sm_90a; the simulator has stand-ins for all of it (bulk.h, wgmma.h). Rows of A and B are multiples of 16 bytes.
//
// Moves   the same bytes as rung 12. A tensor map says how a matrix lies; a copy of a box goes to shared memory already
//         swizzled, with zeros where the matrix ends.
// Gains   of the 512 threads' copies, addresses and predicates nothing is left: one thread, 2 or 3 instructions per slice. And
//         all stages but the one being read are on their way: rung 12 must keep one more free.
// Costs   the maps are made by the host for each pair of matrices. Each slice still ends at a __syncthreads: it alone says that
//         nobody reads the stage that is to be filled again.
#include "bulk.h"
#include "vec.h"
#include "wgmma.h"

#ifndef TRANSPOSE_B
#define TRANSPOSE_B 0
#endif
#define THREADS (BM / WM * 32)
static_assert(BK == 64 && WM == 16 && WN == BN, "a warpgroup has 64×BN of C, each of its warps 16 rows; wgmma reads rows of 128 bytes");

// The element (row, column) of a tile with rows of 64, laid out as wgmma reads it; column is a multiple of 8.
__device__ __forceinline__ scalar_t* at(scalar_t* tile, int row, int column) { return tile + row * 64 + (column / 8 ^ row % 8) * 8; }

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B, const scalar_t* __restrict__ bias,
     scalar_t* __restrict__ C, int M, int N, int K, float low, float high) {
    extern __shared__ __align__(1024) scalar_t tiles[];
    scalar_t* const As = tiles;                     // [STAGES][BM][BK]
    scalar_t* const Bs = tiles + STAGES * BM * BK;  // [STAGES][BN / 64][BK][64], with TRANSPOSE_B [STAGES][BN][BK]
    Mbarrier* const full = (Mbarrier*)(Bs + STAGES * BN * BK);  // [STAGES]: its slice is here

    // Blocks that run at the same time shall read the same rows of A and columns of B: GROUP rows of tiles, column by column.
    const int tiles_m = (M - 1) / BM + 1, tiles_n = (N - 1) / BN + 1;
    const int first = blockIdx.x / (GROUP * tiles_n) * GROUP, in_group = blockIdx.x % (GROUP * tiles_n);
    const int group = tiles_m - first < GROUP ? tiles_m - first : GROUP;
    const int row0 = (first + in_group % group) * BM, col0 = in_group / group * BN;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, slices = (K - 1) / BK + 1;

    auto fetch_slice = [&](int slice) {  // by one thread
        const int stage = slice % STAGES;
        scalar_t* const b = Bs + stage * (BK * BN);
        full[stage].expect((BM + BN) * BK * sizeof(scalar_t));
        bulk_copy_tile(As + stage * (BM * BK), A, slice * BK, row0, full[stage]);
        if (TRANSPOSE_B) bulk_copy_tile(b, B, slice * BK, col0, full[stage]);
        else
            for (int j = 0; j < BN; j += 64) bulk_copy_tile(b + j * BK, B, col0 + j, slice * BK, full[stage]);
    };
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) full[stage].init(1);
        mbarriers_ready();
        for (int slice = 0; slice < STAGES - 1 && slice < slices; ++slice) fetch_slice(slice);
    }
    __syncthreads();

    float acc[BN / 8][4] = {};
    for (int slice = 0; slice < slices; ++slice) {
        full[slice % STAGES].wait(slice / STAGES % 2);
        const scalar_t *a = As + slice % STAGES * (BM * BK) + warp / 4 * 64 * BK, *b = Bs + slice % STAGES * (BK * BN);
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < BK; k += 16) wgmma<BN, !TRANSPOSE_B>(acc, a + k, TRANSPOSE_B ? b + k : b + k * 64, BK * 64);
        wgmma_commit();
        wgmma_wait<1>();  // the products with the slice before are done,
        __syncthreads();  // in all warpgroups: its stage may be filled again
        if (threadIdx.x == 0 && slice + STAGES - 1 < slices) fetch_slice(slice + STAGES - 1);
    }

    // C goes out by way of shared memory, where lanes with 2 neighbours each put together rows that are stored 8 at a time.
    wgmma_wait<0>();
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
            store(at(tiles + col / 64 * (BM * 64), warp * 16 + i * 8 + lane / 4, col % 64 / 8 * 8) + col % 8, v);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < BM * BN / 8; i += THREADS) {
        const int row = i / (BN / 8), col = i % (BN / 8) * 8;
        const scalar_t* from = at(tiles + col / 64 * (BM * 64), row, col % 64);
        if (row >= M - row0) break;
        if (col < N - col0) *(uint4*)(C + ((size_t)row0 + row) * N + col0 + col) = *(const uint4*)from;
    }
}
