// pointwise, rung 8 "persistent": the copy engine brings tiles to blocks that stay; one half multiplies while the other half stores.
// requires: sm_90
//
// Compiled for sm_90a; the simulator has stand-ins for all of it (bulk.h, wgmma.h). fp16, NHWC, C and O multiples of 8.
//
// Moves   x once per BN outputs. With KEEP a block has the same outputs for all its pixels, and their weights stay in shared
//         memory: each block reads them once, where rung 7 reads them for every BM pixels. y and residual once.
// Gains   a thread of its own asks for tiles, whose arrival mbarriers count: no copies by 128 threads or more, no __syncthreads.
//         A block is set up once, and its ring of STAGES goes on from tile to tile. With TEAMS = 2 two groups of warpgroups take
//         turns: the products of one tile run while the one before is stored. Sums begin at bias + residual, whose reads thus
//         end before the products do.
//         With SPLIT = 2 the two blocks of a cluster share a tile: each multiplies half of the channels, for a tile twice as
//         large, and thus reads each pixel and weight less often. For layers with fewer tiles than multiprocessors.
// Costs   four warps that multiply nothing. Blocks have whole tiles: one more than there are multiprocessors doubles the time,
//         so BM and BN go with the layer. Weights that stay leave less room for pixels in flight. Runs on Hopper only.
//
// With POOL a tile is one image, of at most BM pixels, and y (N, O) gets the mean of its outputs, clamped: they are never stored.
// Pixels are added in a fixed order: by a lane, in its warp, then warp after warp. BM - pixels rows are multiplied for nothing.
#include "bulk.h"
#include "cluster.h"
#include "epilogue.h"
#include "wgmma.h"

#ifndef POOL
#define POOL 0
#endif
#ifndef SPLIT
#define SPLIT 1
#endif
#if SPLIT == 1  // blocks of clusters of one would start later
#undef __cluster_dims__
#define __cluster_dims__(...)
#endif
constexpr int TEAM = BM / 64, CONSUMERS = TEAMS * TEAM;    // warpgroups that share a tile; all that multiply. One more fetches
constexpr int SLICES = (DEPTH / SPLIT + 3) / 4;            // DEPTH: steps of 16 channels; a slice has four, the last one LAST
constexpr int LAST = DEPTH / SPLIT - (SLICES - 1) * 4;
constexpr int OUTPUTS = BN / SPLIT;                        // of a tile that a block stores
constexpr int PIXELS = BM * 64, WEIGHTS = BN * 64;         // elements of a slice
constexpr int STAGE = KEEP ? PIXELS : PIXELS + WEIGHTS;
// Registers per thread: when the kernel begins; then of the warpgroup that fetches, and of the others. More than the block has
// would be waited for for ever.
constexpr int START = CONSUMERS == 1 ? 240 : 65536 / ((CONSUMERS + 1) * 128) / 8 * 8, DOWN = 40;
constexpr int UP = CONSUMERS == 1 ? 240 : ((CONSUMERS + 1) * START - DOWN) / CONSUMERS / 8 * 8;
static_assert(BM % 64 == 0 && BN % 16 == 0, "a warpgroup has 64 pixels, stmatrix stores 16 outputs");
static_assert(SPLIT == 1 || TEAMS == 1 && !KEEP && !POOL && DEPTH % (SPLIT * 4) == 0 && BN % (SPLIT * 16) == 0, "parts are alike");

// The element (row, column) of a tile with rows of 64, laid out as wgmma reads it; column is a multiple of 8.
__device__ __forceinline__ scalar_t* at(scalar_t* tile, int row, int column) { return tile + row * 64 + (column / 8 ^ row % 8) * 8; }

// The products of STEPS·16 channels, begun and counted as a group.
template <int STEPS> __device__ __forceinline__ void multiply(float (&acc)[BN / 8][4], const scalar_t* xs, const scalar_t* ws) {
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < STEPS * 16; k += 16) wgmma<BN, false>(acc, xs + k, ws + k, 0);
    wgmma_commit();
}

// 16 pixels from a warp's registers: 64 outputs at a time through its part of shared memory, so that rows go out whole.
template <int J>
__device__ __forceinline__ void store_rows(const float (&acc)[J][4], scalar_t* part, scalar_t* y, int p0, int o0, int P, int O,
                                           unsigned low, unsigned high) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int base = 0; base < J * 8; base += 64) {
#pragma unroll
        for (int j = 0; j < 8 && base / 8 + j < J; j += 2) {
            unsigned r[4];  // outputs 8j … of pixels 0–7, of pixels 8–15, outputs 8j + 8 … of both
#pragma unroll
            for (int m = 0; m < 4; ++m) {
                const float(&sums)[4] = acc[base / 8 + j + m / 2];
                r[m] = min_halves(max_halves(pack(sums[m % 2 * 2], sums[m % 2 * 2 + 1]), low), high);
            }
            stmatrix_x4(at(part, lane % 16, (j + lane / 16) * 8), r);
        }
        __syncwarp();
#pragma unroll
        for (int i = lane; i < 128; i += 32) {  // 8 lanes for the 128 bytes of a pixel
            const int p = p0 + i / 8, column = base + i % 8 * 8, o = o0 + column;
            if (p < P && o < O && column < J * 8) *(uint4*)(y + (size_t)p * O + o) = *(const uint4*)at(part, i / 8, i % 8 * 8);
        }
        __syncwarp();
    }
}

// With SPLIT: the sums of the outputs that the other block stores are sent there; those of its own stay in registers.
using Sums = float4[OUTPUTS / 8][CONSUMERS * 128];
__device__ __forceinline__ void send_sums(const float (&acc)[BN / 8][4], float (&own)[OUTPUTS / 8][4], Sums& sums, Mailbox* box, int rank) {
#pragma unroll
    for (int j = 0; j < OUTPUTS / 8; ++j) {
        float other[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const float first = acc[j][e], second = acc[j + BN / 8 - OUTPUTS / 8][e];
            own[j][e] = rank ? second : first, other[e] = rank ? first : second;
        }
        box->send(&sums[j][threadIdx.x], 1 - rank, make_float4(other[0], other[1], other[2], other[3]));
    }
}

// The sums over the first `pixels` rows of a tile of clamped outputs: of 16 rows, from `row` on, to `sums`, BN of them.
__device__ __forceinline__ void add_rows(const float (&acc)[BN / 8][4], float* sums, int row, int pixels, float low, float high) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < BN / 8; ++j) {
        float sum[2] = {};
#pragma unroll
        for (int i = 0; i < 2; ++i)
            for (int e = 0; e < 2; ++e)
                if (row + i * 8 + lane / 4 < pixels) sum[e] += clamp(acc[j][i * 2 + e], low, high);
#pragma unroll
        for (int far = 4; far < 32; far *= 2)
            for (int e = 0; e < 2; ++e) sum[e] += __shfl_xor_sync(0xffffffff, sum[e], far);
        if (lane < 4) *(float2*)(sums + j * 8 + lane * 2) = make_float2(sum[0], sum[1]);
    }
}

extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__((CONSUMERS + 1) * 128, 1)
pointwise(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap weight, const scalar_t* __restrict__ bias,
          const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, int N, int C, int O, int pixels, float low, float high) {
    extern __shared__ __align__(1024) scalar_t tiles[];
    scalar_t* const ring = tiles;                       // [STAGES][BM rows of x, without KEEP BN of weight][64 channels]
    scalar_t* const kept = ring + STAGES * STAGE;       // with KEEP [SLICES][BN][64]
    scalar_t* const parts = kept + (KEEP ? SLICES * WEIGHTS : 0);  // [CONSUMERS * 4][16][64]
    Mbarrier* const full = (Mbarrier*)(parts + CONSUMERS * 4096);  // [STAGES]: its slice is here
    Mbarrier* const empty = full + STAGES;              // [STAGES]: the team that reads it is done with its slice
    Mbarrier* const turn = empty + STAGES;              // [TEAMS]: the other team has begun all products of its tile, so that
                                                        // nobody waits for a stage that is two phases away
    Mbarrier* const pool = turn + TEAMS;                // [TEAMS]: the threads of a team meet
    Mbarrier* const here = pool + TEAMS;                // with KEEP [SLICES]: the weights that stay
    Mailbox* const box = (Mailbox*)here;                // with SPLIT: counts the sums that arrive
    Sums& sums = *(Sums*)(here + 2);

    const int P = N * pixels, step = POOL ? pixels : BM;  // pixels from tile to tile
    const int across = (O - 1) / BN + 1, count = ((P - 1) / step + 1) * across;  // tiles, across first
    const unsigned least = pack(low, low), most = pack(high, high);
    const int warp = threadIdx.x / 32, rank = SPLIT > 1 ? cluster_rank() : 0, first = rank * SLICES * 64;  // of its channels
    if (threadIdx.x == 0) {
        if (SPLIT > 1) box->open(), box->expect(sizeof(Sums));
        for (int stage = 0; stage < STAGES; ++stage) full[stage].init(1), empty[stage].init(TEAM * 4);
        for (int team = 0; team < TEAMS; ++team) turn[team].init(TEAM * 4), pool[team].init(TEAM * 128);
        for (int slice = 0; KEEP && slice < SLICES; ++slice) here[slice].init(1);
        mbarriers_ready();
    }
    if (SPLIT > 1) cluster_started();
    __syncthreads();

    float own[OUTPUTS / 8][4];  // with SPLIT: sums of this block's channels and outputs
    if (warp >= CONSUMERS * 4) {  // the producer: one thread of the last warpgroup
        registers_down<DOWN>();
        int i = 0;  // counts slices, of all tiles
        for (int tile = blockIdx.x / SPLIT; threadIdx.x == CONSUMERS * 128 && tile < count; tile += gridDim.x / SPLIT)
            for (int slice = 0; slice < SLICES; ++slice, ++i) {
                const int stage = i % STAGES;
                scalar_t* const xs = ring + stage * STAGE;
                if (KEEP && i < SLICES) {  // the block's first tile; gridDim.x is a multiple of `across`
                    here[slice].expect(WEIGHTS * sizeof(scalar_t));
                    bulk_copy_tile(kept + slice * WEIGHTS, weight, slice * 64, tile % across * BN, here[slice]);
                }
                empty[stage].wait((i / STAGES + 1) % 2);
                full[stage].expect(STAGE * sizeof(scalar_t));
                bulk_copy_tile(xs, x, first + slice * 64, tile / across * step, full[stage]);
                if (!KEEP) bulk_copy_tile(xs + PIXELS, weight, first + slice * 64, tile % across * BN, full[stage]);
            }
    } else {
        registers_up<UP>();
        const int team = warp / (TEAM * 4), row = warp % (TEAM * 4) * 16;  // the warp's rows of a tile
        const bool speaks = threadIdx.x % 32 == 0;  // for its warp
        int i = team * SLICES;
        for (int tile = blockIdx.x / SPLIT + team * gridDim.x; tile < count; tile += TEAMS * gridDim.x / SPLIT) {
            const int p0 = tile / across * step + row, o0 = tile % across * BN, tiles_before = i / SLICES;
            float acc[BN / 8][4];
            begin_sums(acc, rank ? nullptr : bias, rank ? nullptr : residual, p0 + threadIdx.x % 32 / 4, o0 + threadIdx.x % 4 * 2, P, O);
            if (TEAMS > 1) turn[team].wait((tiles_before / TEAMS + 1 + team) % 2);
            int slice = 0;
            auto arrive = [&](int at, bool really) { empty[at % STAGES].arrive(really && speaks); };
            auto weights = [&]() {
                if (KEEP && tiles_before < TEAMS) here[slice].wait(0);
                return KEEP ? kept + slice * WEIGHTS : ring + i % STAGES * STAGE + PIXELS;
            };
            for (; slice < SLICES - 1; ++slice, ++i) {
                full[i % STAGES].wait(i / STAGES % 2);
                multiply<4>(acc, ring + i % STAGES * STAGE + row / 64 * 4096, weights());
                wgmma_wait<1>();  // the products with the slice before are done
                __syncwarp();
                arrive(i + STAGES - 1, slice > 0);
            }
            full[i % STAGES].wait(i / STAGES % 2);
            multiply<LAST>(acc, ring + i % STAGES * STAGE + row / 64 * 4096, weights());
            if (TEAMS > 1) turn[(team + 1) % TEAMS].arrive(speaks);
            wgmma_wait<0>();
            __syncwarp();
            if (SLICES > 1) arrive(i + STAGES - 1, true);
            arrive(i, true);
            if (POOL) {
                float* const sums = (float*)(parts + warp * 1024);  // 512 floats for each warp
                add_rows(acc, sums, row, pixels, low, high);
                __syncwarp();
                pool[team].arrive(true), pool[team].wait(0);
                for (int o = threadIdx.x % (TEAM * 128); o < BN && o0 + o < O; o += TEAM * 128) {
                    float sum = 0;
                    for (int w = 0; w < TEAM * 4; ++w) sum += sums[(w - warp % (TEAM * 4)) * 512 + o];
                    y[tile / across * O + o0 + o] = (scalar_t)(sum / pixels);
                }
                __syncwarp();
                pool[team].arrive(true), pool[team].wait(1);  // all have read the sums
            } else if (SPLIT > 1)
                send_sums(acc, own, sums, box, rank);
            else
                store_rows(acc, parts + warp * 1024, y, p0, o0, P, O, least, most);
            i += (TEAMS - 1) * SLICES + 1;
        }
    }
    if (SPLIT == 1) return;  // a cluster has one tile
    const bool adds = warp < CONSUMERS * 4;
    box->wait(0, adds);
    if (!adds) return;
    const int tile = blockIdx.x / SPLIT, p0 = tile / across * BM + warp * 16, o0 = tile % across * BN + rank * OUTPUTS;
#pragma unroll
    for (int j = 0; j < OUTPUTS / 8; ++j) {
        const float4 other = sums[j][threadIdx.x];
        own[j][0] += other.x, own[j][1] += other.y, own[j][2] += other.z, own[j][3] += other.w;
    }
    store_rows(own, parts + warp * 1024, y, p0, o0, P, O, least, most);
}
