// pointwise, rung 9 "persistent_halves": rung 8 for floats: each product is three of halves, and sums leave the tensor cores in time.
// requires: sm_90
//
// Compiled for sm_90a; the simulator has stand-ins for all of it (bulk.h, wgmma_halves.h). fp32, NHWC, C and O multiples of 4.
// weight: pairs of halves, 32 channels' high ones and then their low ones in a row of 64, in the order of wgmma_halves.h.
//
// Moves   what rung 8 moves, in floats: a pair of halves has the bytes of a float. Floats of x are taken apart in registers, where
//         wgmma reads them too; so nothing is stored for it, here or by the layer before.
// Gains   half the tensor work of 3xTF32. One product of halves with K' = 3K channels, x = [low|high|high] and weight =
//         [high|low|high], the small products first; sums of 32 channels, truncated six times each, are added up as floats.
// Costs   twice the registers, sums and those of the last 32 channels; and while they are added up no products of that warpgroup run,
//         so a tile has several warpgroups. The caller states a bound of x, see pair_of_halves.h.
#include "bulk.h"
#include "epilogue.h"
#include "wgmma_halves.h"

#ifndef X_SCALE
#define X_SCALE 1.0f
#define UNSCALE 1.0f
#endif
constexpr int TEAM = BM / 64, CONSUMERS = TEAMS * TEAM;  // warpgroups that share a tile; all that multiply. One more fetches
constexpr int PIXELS = BM * 32, WEIGHTS = BN * 32;       // words of a slice: 32 floats, or as many pairs of halves
constexpr int STAGE = KEEP ? PIXELS : PIXELS + WEIGHTS;
// Registers per thread: when the kernel begins; then of the warpgroup that fetches, and of the others. More than the block has
// would be waited for for ever.
constexpr int START = CONSUMERS == 1 ? 240 : 65536 / ((CONSUMERS + 1) * 128) / 8 * 8, DOWN = 40;
constexpr int UP = CONSUMERS == 1 ? 240 : ((CONSUMERS + 1) * START - DOWN) / CONSUMERS / 8 * 8;
static_assert(BM % 64 == 0 && BN % 16 == 0, "a warpgroup has 64 pixels");

// Four lanes have the 32 bytes of 8 neighbouring outputs: whole sectors, without a way through shared memory.
__device__ __forceinline__ void store_rows(float (&acc)[BN / 8][4], scalar_t* y, int p, int o0, int P, int O, float low, float high) {
#pragma unroll
    for (int j = 0; j < BN / 8; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int o = o0 + j * 8 + threadIdx.x % 4 * 2;
            const float v[2] = {clamp(acc[j][i * 2], low, high), clamp(acc[j][i * 2 + 1], low, high)};
            if (p + i * 8 < P && o < O) store(y + (size_t)(p + i * 8) * O + o, v);
        }
}

extern "C" __global__ void __launch_bounds__((CONSUMERS + 1) * 128, 1)
pointwise(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap weight, const scalar_t* __restrict__ bias,
          const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, int N, int C, int O, int pixels, float low, float high) {
    extern __shared__ __align__(1024) scalar_t tiles[];
    scalar_t* const ring = tiles;                       // [STAGES][BM rows of x, without KEEP BN of weight][32 words]
    scalar_t* const kept = ring + STAGES * STAGE;       // with KEEP [slices][BN][32]
    const int slices = (C - 1) / 32 + 1;
    Mbarrier* const full = (Mbarrier*)(kept + (KEEP ? slices * WEIGHTS : 0));  // [STAGES]: its slice is here
    Mbarrier* const empty = full + STAGES;              // [STAGES]: the team that reads it is done with its slice
    Mbarrier* const turn = empty + STAGES;              // [TEAMS]: the other team is done with its tile's slices
    Mbarrier* const here = turn + TEAMS;                // with KEEP: all weights that stay

    const int P = N * pixels, across = (O - 1) / BN + 1, count = ((P - 1) / BM + 1) * across;  // tiles, across first
    const int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) full[stage].init(1), empty[stage].init(TEAM * 4);
        for (int team = 0; team < TEAMS; ++team) turn[team].init(TEAM * 4);
        if (KEEP) here->init(1);
        mbarriers_ready();
    }
    __syncthreads();

    if (warp >= CONSUMERS * 4) {  // the producer: one thread of the last warpgroup
        registers_down<DOWN>();
        if (threadIdx.x != CONSUMERS * 128) return;
        if (KEEP) {  // gridDim.x is a multiple of `across`
            here->expect(slices * WEIGHTS * sizeof(scalar_t));
            for (int slice = 0; slice < slices; ++slice)
                bulk_copy_tile(kept + slice * WEIGHTS, weight, slice * 64, blockIdx.x % across * BN, *here);
        }
        int i = 0;  // counts slices, of all tiles
        for (int tile = blockIdx.x; tile < count; tile += gridDim.x)
            for (int slice = 0; slice < slices; ++slice, ++i) {
                const int stage = i % STAGES;
                scalar_t* const xs = ring + stage * STAGE;
                empty[stage].wait((i / STAGES + 1) % 2);
                full[stage].expect(STAGE * sizeof(scalar_t));
                bulk_copy_tile(xs, x, slice * 32, tile / across * BM, full[stage]);
                if (!KEEP) bulk_copy_tile(xs + PIXELS, weight, slice * 64, tile % across * BN, full[stage]);
            }
    } else {
        registers_up<UP>();
        const int team = warp / (TEAM * 4), row = warp % (TEAM * 4) * 16 + threadIdx.x % 32 / 4;  // the lane's rows: this and 8 on
        const bool speaks = threadIdx.x % 32 == 0;  // for its warp
        if (KEEP) here->wait(0);
        int i = team * slices;
        for (int tile = blockIdx.x + team * gridDim.x; tile < count; tile += TEAMS * gridDim.x) {
            const int p = tile / across * BM + row, o0 = tile % across * BN;
            float acc[BN / 8][4], part[BN / 8][4] = {};
            begin_sums(acc, bias, residual, p, o0 + threadIdx.x % 4 * 2, P, O);
            if (TEAMS > 1) turn[team].wait((i / slices / TEAMS + 1 + team) % 2);  // so nobody waits at a stage two phases ahead
            for (int slice = 0; slice < slices; ++slice, ++i) {
                const scalar_t* const xs = ring + i % STAGES * STAGE;
                unsigned high_halves[2][4], low_halves[2][4];
                full[i % STAGES].wait(i / STAGES % 2);
                load_halves(high_halves, low_halves, xs, row, X_SCALE);
                wgmma_begin();
                wgmma_halves(part, high_halves, low_halves, (const __half*)(KEEP ? kept + slice * WEIGHTS : xs + PIXELS));
                wgmma_commit();
                // With KEEP a stage has x alone, which wgmma reads in registers. Not before wgmma: the assembler lets an arrival
                // pass loads that are still under way, and the next copy would overwrite what they read.
                if (KEEP) __syncwarp(), empty[i % STAGES].arrive(speaks);
                wgmma_wait<0>();
                if (!KEEP) __syncwarp(), empty[i % STAGES].arrive(speaks);
#pragma unroll
                for (int j = 0; j < BN / 8; ++j) add_scaled(acc[j], part[j], UNSCALE);
            }
            if (TEAMS > 1) turn[(team + 1) % TEAMS].arrive(speaks);
            store_rows(acc, y, p, o0, P, O, low, high);
            i += (TEAMS - 1) * slices;
        }
    }
}
