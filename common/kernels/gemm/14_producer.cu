// gemm, rung 14 "producer": a warp of its own asks for the slices; two mbarriers per stage, "full" and "empty", replace all barriers.
// requires: sm_90
//
// Compiled for sm_90a; the simulator has stand-ins for all of it (bulk.h, wgmma.h). Rows of A and B are multiples of 16 bytes.
//
// Moves   per slice what rung 13 moves; a block of 128×256 has two warpgroups with 64×256 of C each, so that a product of 64×16 by
//         16×256 reads A and B from shared memory once for 256 columns: (64 + 256)/4 wavefronts, not 2·(64 + 128)/4.
// Gains   nobody waits for all: a warpgroup that is done with a stage says so at its "empty" barrier and goes on with the next
//         full one. The producer needs few registers and gives the others to the warpgroups that hold C: setmaxnreg.
// Costs   a warpgroup's worth of threads that compute nothing; while C is stored, no products run.
#include "bulk.h"
#include "vec.h"
#include "wgmma.h"

#ifndef TRANSPOSE_B
#define TRANSPOSE_B 0
#endif
#define CONSUMERS (BM / 64)  // warpgroups that compute; one more fetches
// Registers per thread: when the kernel begins; then of the warpgroup that fetches, and of the others. More than the block has
// would be waited for for ever.
constexpr int START = CONSUMERS == 1 ? 240 : 65536 / ((CONSUMERS + 1) * 128) / 8 * 8, DOWN = 40;
constexpr int UP = CONSUMERS == 1 ? 240 : ((CONSUMERS + 1) * START - DOWN) / CONSUMERS / 8 * 8;
static_assert(BK == 64 && WM == 16 && WN == BN, "a warpgroup has 64×BN of C, each of its warps 16 rows; wgmma reads rows of 128 bytes");

// The element (row, column) of a tile with rows of 64, laid out as wgmma reads it; column is a multiple of 8.
__device__ __forceinline__ scalar_t* at(scalar_t* tile, int row, int column) { return tile + row * 64 + (column / 8 ^ row % 8) * 8; }

// 16 rows of C from a warp's registers: 64 columns at a time through its part of shared memory, so that rows go out whole.
__device__ __forceinline__ void store_rows(const float (&acc)[BN / 8][4], scalar_t* part, const scalar_t* bias, scalar_t* C, int row0,
                                           int col0, int M, int N, float low, float high) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int base = 0; base < BN; base += 64) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int col = base + j * 8 + lane % 4 * 2;
            float v[2], add[2] = {};
            for (int e = 0; e < 2; ++e)
                if (bias && col + e < N - col0) add[e] = (float)bias[col0 + col + e];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                for (int e = 0; e < 2; ++e) v[e] = clamp(acc[base / 8 + j][i * 2 + e] + add[e], low, high);
                store(at(part, i * 8 + lane / 4, j * 8) + lane % 4 * 2, v);
            }
        }
        __syncwarp();
#pragma unroll
        for (int i = lane; i < 128; i += 32) {  // 8 lanes for the 128 bytes of a row
            const int row = row0 + i / 8, col = col0 + base + i % 8 * 8;
            if (row < M && col < N) *(uint4*)(C + (size_t)row * N + col) = *(const uint4*)at(part, i / 8, i % 8 * 8);
        }
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__((CONSUMERS + 1) * 128, 1)
gemm(const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B, const scalar_t* __restrict__ bias,
     scalar_t* __restrict__ C, int M, int N, int K, float low, float high) {
    extern __shared__ __align__(1024) scalar_t tiles[];
    scalar_t* const As = tiles;                         // [STAGES][BM][BK]
    scalar_t* const Bs = As + STAGES * BM * BK;         // [STAGES][BN / 64][BK][64], with TRANSPOSE_B [STAGES][BN][BK]
    scalar_t* const parts = Bs + STAGES * BN * BK;      // [CONSUMERS * 4][16][64]
    Mbarrier* const full = (Mbarrier*)(parts + BM * 64);  // [STAGES]: its slice is here
    Mbarrier* const empty = full + STAGES;              // [STAGES]: all consumers are done with its slice

    const int tiles_m = (M - 1) / BM + 1, tiles_n = (N - 1) / BN + 1;
    const int first = blockIdx.x / (GROUP * tiles_n) * GROUP, in_group = blockIdx.x % (GROUP * tiles_n);
    const int group = tiles_m - first < GROUP ? tiles_m - first : GROUP;
    const int row0 = (first + in_group % group) * BM, col0 = in_group / group * BN;
    const int warp = threadIdx.x / 32, slices = (K - 1) / BK + 1;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) full[stage].init(1), empty[stage].init(CONSUMERS * 4);
        mbarriers_ready();
    }
    __syncthreads();

    if (warp >= CONSUMERS * 4) {  // the producer: one thread of the last warpgroup
        registers_down<DOWN>();
        if (threadIdx.x == CONSUMERS * 128)
            for (int slice = 0; slice < slices; ++slice) {
                const int stage = slice % STAGES, turn = slice / STAGES;
                scalar_t* const b = Bs + stage * (BK * BN);
                empty[stage].wait((turn + 1) % 2);
                full[stage].expect((BM + BN) * BK * sizeof(scalar_t));
                bulk_copy_tile(As + stage * (BM * BK), A, slice * BK, row0, full[stage]);
                if (TRANSPOSE_B) bulk_copy_tile(b, B, slice * BK, col0, full[stage]);
                else
                    for (int j = 0; j < BN; j += 64) bulk_copy_tile(b + j * BK, B, col0 + j, slice * BK, full[stage]);
            }
    } else {
        registers_up<UP>();
        float acc[BN / 8][4] = {};
        int slice = 0;
        do {  // not `for`: if ptxas thinks that no product may run, it waits for each one that does
            const int stage = slice % STAGES;
            const scalar_t *a = As + stage * (BM * BK) + warp / 4 * 64 * BK, *b = Bs + stage * (BK * BN);
            full[stage].wait(slice / STAGES % 2);
            wgmma_begin();
#pragma unroll
            for (int k = 0; k < BK; k += 16) wgmma<BN, !TRANSPOSE_B>(acc, a + k, TRANSPOSE_B ? b + k : b + k * 64, BK * 64);
            wgmma_commit();
            wgmma_wait<1>();  // the products with the slice before are done
            __syncwarp();
            empty[(slice + STAGES - 1) % STAGES].arrive(slice > 0 && threadIdx.x % 32 == 0);
        } while (++slice < slices);
        wgmma_wait<0>();
        store_rows(acc, parts + warp * 16 * 64, bias, C, row0 + warp * 16, col0, M, N, low, high);
    }
}
