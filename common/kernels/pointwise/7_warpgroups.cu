// pointwise, rung 7 "warpgroups": Hopper's wgmma reads tiles of x and weight straight from shared memory; for many channels.
// requires: sm_80
//
// Compiled for sm_90a. On other cards wgmma.h computes the same sums without tensor cores, for tests. fp16, NHWC.
//
// Moves   x once per BN outputs, the weight once per BM pixels, y and residual once. BN is all of O where that is at most
//         256 and enough blocks are left: then x is read once. No operand passes through registers.
// Gains   no ldmatrix, and one instruction for four warps: per 64 channels a warpgroup issues four wgmma for 64×BN sums. So
//         what remains of a block's time is waiting for its tiles. With at most STAGES slices (WHOLE) all come at once.
// Costs   the 64×BN sums lie in one warpgroup's registers, so a tile has at least 64 pixels: the 49 pixels of one 7×7 image
//         leave a quarter of it unused, and most multiprocessors without a block. Runs on Hopper only.
#include "vec.h"
#include "wgmma.h"

#ifndef VECTOR
#define VECTOR 1  // 0: rows of x, weight, residual or y do not begin at multiples of 16 bytes
#endif
constexpr int THREADS = BM * 2;  // a warpgroup for 64 pixels
constexpr int AHEAD = WHOLE ? STAGES : STAGES - 2;  // slices in flight; of the others products are reading
constexpr int GROUPS = BN / 32;  // 32 outputs, of which a lane has 8 neighbours

extern "C" __global__ void __launch_bounds__(THREADS)
pointwise(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
          const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, int N, int C, int O, int pixels, float low, float high) {
    extern __shared__ __align__(1024) scalar_t tiles[];  // [STAGES][BM rows of x, BN of weight][64 channels]
    const int P = N * pixels;
    const int p0 = (blockIdx.z * gridDim.y + blockIdx.y) * BM, o0 = blockIdx.x * BN;
    if (p0 < 0 || p0 >= P) return;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, slices = (C - 1) / 64 + 1;

    // A thread copies piece u, 8 channels, of every THREADS / 8th row. It lies in place u ^ r % 8 of row r, as wgmma wants it.
    const int u = threadIdx.x % 8;
    auto fetch_slice = [&](int slice) {
        scalar_t* to = tiles + slice % STAGES * ((BM + BN) * 64);
        const int left = C - slice * 64 - u * 8;
#pragma unroll
        for (int r = threadIdx.x / 8; r < BM + BN; r += THREADS / 8) {
            // weights in an order in which a lane's columns of the product are 8 neighbouring outputs
            const int o = o0 + (r - BM) / 32 * 32 + (r - BM) % 8 / 2 * 8 + (r - BM) / 8 % 4 * 2 + (r - BM) % 2;
            const bool of_x = r < BM, inside = of_x ? p0 + r < P : o < O;
            const scalar_t* from = (of_x ? x : weight) + (inside ? (of_x ? p0 + r : o) * C + slice * 64 + u * 8 : 0);
            scalar_t* piece = to + r * 64 + (u ^ r % 8) * 8;
#if VECTOR
            cp_async_16(piece, inside && left > 0 ? from : x, inside && left > 0);
#else
            for (int e = 0; e < 8; ++e) piece[e] = inside && e < left ? from[e] : (scalar_t)0.0f;
#endif
        }
    };
#pragma unroll
    for (int s = 0; s < AHEAD; ++s) {
        if (s < slices) fetch_slice(s);
        cp_async_commit();  // a group a slice, empty ones too, so that counting groups is counting slices
    }

    float acc[BN / 8][4] = {};
    for (int slice = 0; slice < slices; ++slice) {
        if (!WHOLE || slice == 0) {
            cp_async_wait<WHOLE ? 0 : AHEAD - 1>();
            async_fence();
            __syncthreads();
        }
        const scalar_t* xs = tiles + slice % STAGES * ((BM + BN) * 64);
        const scalar_t* ws = xs + BM * 64;
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < 64; k += 16) wgmma<BN, false>(acc, xs + threadIdx.x / 128 * (64 * 64) + k, ws + k, 0);
        wgmma_commit();
        if (!WHOLE) {
            if (slice + AHEAD < slices) fetch_slice(slice + AHEAD);
            cp_async_commit();
            wgmma_wait<1>();  // for those with the last slice: the ones just begun go on
        }
    }

    // what else the results need is on its way while the last products run
    float add[GROUPS][8], more[2][GROUPS][8];
#pragma unroll
    for (int n = 0; n < GROUPS; ++n) {
        const int o = o0 + n * 32 + t * 8;
#pragma unroll
        for (int e = 0; e < 8; ++e) add[n][e] = more[0][n][e] = more[1][n][e] = 0.0f;
#if VECTOR
        if (bias && o < O) load(add[n], bias + o);
#else
        for (int e = 0; e < 8; ++e)
            if (bias && o + e < O) add[n][e] = (float)bias[o + e];
#endif
#pragma unroll
        for (int m = 0; m < 2; ++m) {
            const int p = p0 + threadIdx.x / 32 * 16 + m * 8 + g;
#if VECTOR
            if (residual && p < P && o < O) load(more[m][n], residual + p * O + o);
#else
            for (int e = 0; e < 8; ++e)
                if (residual && p < P && o + e < O) more[m][n][e] = (float)residual[p * O + o + e];
#endif
        }
    }
    wgmma_wait<0>();
#pragma unroll
    for (int m = 0; m < 2; ++m) {
        const int p = p0 + threadIdx.x / 32 * 16 + m * 8 + g;
#pragma unroll
        for (int n = 0; n < GROUPS; ++n) {
            const int o = o0 + n * 32 + t * 8;
            float out[8];
#pragma unroll
            for (int e = 0; e < 8; ++e) out[e] = clamp(acc[n * 4 + e / 2][m * 2 + e % 2] + add[n][e] + more[m][n][e], low, high);
            if (p >= P) continue;
#if VECTOR
            if (o < O) store(y + p * O + o, out);
#else
            for (int e = 0; e < 8; ++e)
                if (o + e < O) y[p * O + o + e] = (scalar_t)out[e];
#endif
        }
    }
}
