// pointwise_int8, rung 5 "persistent": Hopper's wgmma on tiles that the copy engine brings, by blocks that stay.
// requires: sm_90
//
// Compiled for sm_90a; the simulator has stand-ins for all of it (bulk.h, wgmma_bytes.h). C and O multiples of 16. It is
// rung 8 of pointwise in int8: who asks for tiles, who multiplies and who waits for whom is told there.
//
// Moves   as there, half the bytes.
// Gains   a product runs by itself. mma_s8 holds up the scheduler that issued it for 6 cycles, on an H200; here its warps
//         requantize, 2 to 8 instructions per output, while the other team's products run.
//         If the weights stay, how outputs begin and end lies beside them, where no lane looks whether there are so many.
// Costs   a lane's two neighbouring outputs are 2 bytes, which go to shared memory by themselves. From there rows go out
//         whole, and a residual is added.
#include "bulk.h"
#include "epilogue_int8.h"
#include "one_step.h"
#include "wgmma_bytes.h"

#ifndef SMALL_SUMS
#define SMALL_SUMS 0  // see requantize.h
#endif
#ifndef ONE_STEP
#define ONE_STEP 0  // whether bias and multiplier are those of one_step.h: multiplier [2][O], offsets behind multipliers
#endif
constexpr int TEAM = BM / 64, CONSUMERS = TEAMS * TEAM;  // warpgroups that share a tile; all that multiply
constexpr int SLICES = (DEPTH + 3) / 4;                  // DEPTH: steps of 32 channels; a slice has four, the last one LAST
constexpr int LAST = DEPTH - (SLICES - 1) * 4;
constexpr int PIXELS = BM * 128, WEIGHTS = BN * 128;     // bytes of a slice
constexpr int STAGE = KEEP ? PIXELS : PIXELS + WEIGHTS;
constexpr int START = CONSUMERS == 1 ? 240 : 65536 / ((CONSUMERS + 1) * 128) / 8 * 8, DOWN = 40;  // registers per thread
constexpr int UP = CONSUMERS == 1 ? 240 : ((CONSUMERS + 1) * START - DOWN) / CONSUMERS / 8 * 8;
static_assert(BM % 64 == 0 && BN % 16 == 0, "a warpgroup has 64 pixels, a lane stores 16 outputs");

// Where 16 bytes of a row of 128 lie in a tile, as wgmma reads it.
__device__ __forceinline__ signed char* at(signed char* tile, int row, int piece) {
    return tile + row * 128 + (piece ^ row % 8) * 16;
}

// How two neighbouring outputs begin or end: 0 beyond the last output. In shared memory (KEEP) zeros lie there.
template <class Two> __device__ __forceinline__ Two two_of(const void* ends, int o, int O) {
    if (KEEP) return ((const Two*)ends)[o / 2];
    return o < O ? __ldg((const Two*)ends + o / 2) : Two{0, 0};
}

// What sums begin at, and how they become codes. With KEEP of the block's outputs alone, else of all of them.
struct Ends {
    const int* bias;
    const float *multiplier, *shift;  // shift: with ONE_STEP
};

// A lane's sums before the first product: outputs o, o + 1, … of pixels p and p + 8.
__device__ __forceinline__ void begin_sums(int (&acc)[BN / 8][4], const Ends& ends, int o0, int O) {
#pragma unroll
    for (int j = 0; j < BN / 8; ++j) {
        const int o = o0 + j * 8 + threadIdx.x % 4 * 2;
        const int2 two = KEEP || ends.bias ? two_of<int2>(ends.bias, o, O) : make_int2(0, 0);
        acc[j][0] = acc[j][2] = begin<ONE_STEP ? 0 : SMALL_SUMS>(two.x);
        acc[j][1] = acc[j][3] = begin<ONE_STEP ? 0 : SMALL_SUMS>(two.y);
    }
}

// The products of STEPS·32 channels, begun and counted as a group.
template <int STEPS>
__device__ __forceinline__ void multiply(int (&acc)[BN / 8][4], const signed char* xs, const signed char* ws) {
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < STEPS * 32; k += 32) wgmma_s8<BN>(acc, xs + k, ws + k);
    wgmma_commit();
}

// 16 pixels from a warp's registers: 128 outputs at a time through its part of shared memory, so that rows go out whole.
__device__ __forceinline__ void store_rows(const int (&acc)[BN / 8][4], signed char* part, const Ends& ends, int e0,
                                           const signed char* residual, signed char* y, int p0, int o0, int P, int O,
                                           const Output& to) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, low = residual ? -128 : to.low, high = residual ? 127 : to.high;
#pragma unroll
    for (int base = 0; base < BN; base += 128) {
        constexpr int MOST = BN < 128 ? BN : 128;
#pragma unroll
        for (int j = 0; j < MOST / 8 && base / 8 + j < BN / 8; ++j) {
            const int(&sums)[4] = acc[base / 8 + j];
            const int o = e0 + base + j * 8 + t * 2;
            const float2 scale = two_of<float2>(ends.multiplier, o, O);
            unsigned mine;
            if (ONE_STEP) {
                const float2 shift = two_of<float2>(ends.shift, o, O);
                mine = codes_of_four(sums, make_float4(scale.x, scale.y, scale.x, scale.y), make_float4(shift.x, shift.y, shift.x, shift.y));
            } else
                mine = requantize_four<SMALL_SUMS>(sums, scale.x, scale.y, scale.x, scale.y, to.zero_point, low, high);
            signed char* const there = at(part, g, j / 2) + j % 2 * 8 + t * 2;
            *(unsigned short*)there = (unsigned short)mine;
            *(unsigned short*)(there + 8 * 128) = (unsigned short)(mine >> 16);
        }
        __syncwarp();
        constexpr int PIECES = MOST / 16;
        for (int i = lane; i < 16 * PIECES; i += 32) {
            const int row = i / PIECES, piece = i % PIECES, p = p0 + row, o = o0 + base + piece * 16;
            if (p >= P || o >= O || base + piece * 16 >= BN) continue;
            uint4 four = *(const uint4*)at(part, row, piece);
            if (residual) {
                const uint4 more = __ldg((const uint4*)(residual + (size_t)p * O + o));
                constexpr bool FULL = SMALL_SUMS >= 2;
                four = make_uint4(add_words<FULL>(four.x, more.x, to), add_words<FULL>(four.y, more.y, to),
                                  add_words<FULL>(four.z, more.z, to), add_words<FULL>(four.w, more.w, to));
            }
            *(uint4*)(y + (size_t)p * O + o) = four;
        }
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__((CONSUMERS + 1) * 128, 1) pointwise_int8(
    const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap weight, const int* __restrict__ bias,
    const float* __restrict__ multiplier, const signed char* __restrict__ residual, signed char* __restrict__ y,
    int N, int C, int O, int pixels, int zero_point, int low, int high, float scale_a, float scale_b, float shift, int offset) {
    extern __shared__ __align__(1024) signed char tiles[];
    signed char* const ring = tiles;                                  // [STAGES][BM rows of x, without KEEP BN of weight][128 channels]
    signed char* const kept = ring + STAGES * STAGE;                  // with KEEP [SLICES][BN][128]
    signed char* const parts = kept + (KEEP ? SLICES * WEIGHTS : 0);  // [CONSUMERS * 4][16][128]
    int* const kept_ends = (int*)(parts + CONSUMERS * 8192);          // with KEEP [3][BN]: of Ends
    Mbarrier* const full = (Mbarrier*)(kept_ends + (KEEP ? 3 * BN : 0));  // [STAGES]: its slice is here
    Mbarrier* const empty = full + STAGES;                            // [STAGES]: the team that reads it is done with its slice
    Mbarrier* const turn = empty + STAGES;                            // [TEAMS]: the other team has begun its tile's products
    Mbarrier* const here = turn + TEAMS;                              // with KEEP [SLICES]: the weights that stay

    const int P = N * pixels, across = (O - 1) / BN + 1, count = ((P - 1) / BM + 1) * across;  // tiles, across first
    const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);  // or a compiler makes wgmma wait for each product
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) full[stage].init(1), empty[stage].init(TEAM * 4);
        for (int team = 0; team < TEAMS; ++team) turn[team].init(TEAM * 4);
        for (int slice = 0; KEEP && slice < SLICES; ++slice) here[slice].init(1);
        mbarriers_ready();
    }
    for (int i = threadIdx.x; KEEP && i < BN; i += blockDim.x) {  // gridDim.x is a multiple of `across`
        const int o = blockIdx.x % across * BN + i;
        kept_ends[i] = bias && o < O ? __ldg(bias + o) : 0;
        kept_ends[BN + i] = o < O ? __float_as_int(__ldg(multiplier + o)) : 0;
        if (ONE_STEP) kept_ends[2 * BN + i] = o < O ? __float_as_int(__ldg(multiplier + O + o)) : 0;
    }
    __syncthreads();

    if (warp >= CONSUMERS * 4) {  // the producer: one thread of the last warpgroup
        registers_down<DOWN>();
        if (threadIdx.x != CONSUMERS * 128) return;
        int i = 0;  // counts slices, of all tiles
        for (int tile = blockIdx.x; tile < count; tile += gridDim.x)
            for (int slice = 0; slice < SLICES; ++slice, ++i) {
                const int stage = i % STAGES;
                signed char* const xs = ring + stage * STAGE;
                if (KEEP && i < SLICES) {  // the block's first tile; gridDim.x is a multiple of `across`
                    here[slice].expect(WEIGHTS);
                    bulk_copy_tile(kept + slice * WEIGHTS, weight, slice * 128, tile % across * BN, here[slice]);
                }
                empty[stage].wait((i / STAGES + 1) % 2);
                full[stage].expect(STAGE);
                bulk_copy_tile(xs, x, slice * 128, tile / across * BM, full[stage]);
                if (!KEEP) bulk_copy_tile(xs + PIXELS, weight, slice * 128, tile % across * BN, full[stage]);
            }
    } else {
        registers_up<UP>();
        const Output to = {zero_point, low, high, scale_a, scale_b, shift, offset};
        const Ends ends = KEEP ? Ends{kept_ends, (const float*)kept_ends + BN, (const float*)kept_ends + 2 * BN}
                               : Ends{bias, multiplier, multiplier + O};
        const int team = warp / (TEAM * 4), row = warp % (TEAM * 4) * 16;  // the warp's rows of a tile
        const bool speaks = threadIdx.x % 32 == 0;  // for its warp
        int i = team * SLICES;
        for (int tile = blockIdx.x + team * gridDim.x; tile < count; tile += TEAMS * gridDim.x) {
            const int p0 = tile / across * BM + row, o0 = tile % across * BN, e0 = KEEP ? 0 : o0, tiles_before = i / SLICES;
            int acc[BN / 8][4];
            begin_sums(acc, ends, e0, O);
            if (TEAMS > 1) turn[team].wait((tiles_before / TEAMS + 1 + team) % 2);
            int slice = 0;
            auto arrive = [&](int at, bool really) { empty[at % STAGES].arrive(really && speaks); };
            auto weights = [&]() {
                if (KEEP && tiles_before < TEAMS) here[slice].wait(0);
                return KEEP ? kept + slice * WEIGHTS : ring + i % STAGES * STAGE + PIXELS;
            };
            for (; slice < SLICES - 1; ++slice, ++i) {
                full[i % STAGES].wait(i / STAGES % 2);
                multiply<4>(acc, ring + i % STAGES * STAGE + row / 64 * 8192, weights());
                wgmma_wait<1>();  // the products with the slice before are done
                __syncwarp();
                arrive(i + STAGES - 1, slice > 0);
            }
            full[i % STAGES].wait(i / STAGES % 2);
            multiply<LAST>(acc, ring + i % STAGES * STAGE + row / 64 * 8192, weights());
            if (TEAMS > 1) turn[(team + 1) % TEAMS].arrive(speaks);
            wgmma_wait<0>();
            __syncwarp();
            if (SLICES > 1) arrive(i + STAGES - 1, true);
            arrive(i, true);
            store_rows(acc, parts + warp * 2048, ends, e0, residual, y, p0, o0, P, O, to);
            i += (TEAMS - 1) * SLICES + 1;
        }
    }
}
