// global_avg_pool_int8, rung 2 "words": four channels per load, and WARPS warps that share a window's pixels.
//
// Moves   the same bytes, 128 per request.
// Gains   four times fewer loads, each added to four sums by four dp4a with a single 1 among their weights; WARPS times the
//         bytes in flight. A barrier, then the first warp adds up the sums of all.
// Costs   C must be a multiple of 4. Shared memory: 16 bytes per thread.
#include "requantize.h"

extern "C" __global__ void __launch_bounds__(32 * WARPS)
global_avg_pool_int8(const signed char* __restrict__ x, signed char* __restrict__ out, int N, int C, int pixels, int bias, float multiplier,
                     int zero_point) {
    __shared__ int sums[WARPS][4][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int i = blockIdx.x * 32 + lane, quads = C / 4;  // range [0, N·C / 4), rounded up to whole blocks
    int acc[4] = {};
    if (i < N * quads) {
        const signed char* from = x + i / quads * pixels * C + i % quads * 4;
        for (int p = warp; p < pixels; p += WARPS) {
            const int word = __ldg((const int*)(from + p * C));
#pragma unroll
            for (int e = 0; e < 4; ++e) acc[e] = __dp4a(word, 1 << 8 * e, acc[e]);
        }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[warp][e][lane] = acc[e];
    __syncthreads();
    if (warp > 0 || i >= N * quads) return;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        acc[e] = bias;
        for (int w = 0; w < WARPS; ++w) acc[e] += sums[w][e][lane];
        acc[e] = requantize(acc[e], multiplier, zero_point, -128, 127);
    }
    ((unsigned*)out)[i] = pack(acc[0], acc[1], acc[2], acc[3]);
}
