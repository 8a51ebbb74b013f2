// global_avg_pool, rung 6 "warp_per_channel": one warp per channel, with shuffles alone; warps of a block share nothing.
//
// Moves   as rung 2; where rows of pixels start at multiples of 16 bytes, VECTOR of them per access.
// Gains   no barrier and no shared memory; 8 channels per block, so an eighth of the blocks.
// Costs   what a warp does besides loading, it does for each 49 numbers again: index, guards, five shuffles, a division.
//         About 100 instructions per channel, which at batch 256 take two thirds of all issue slots. And bytes in flight: a
//         row of 49 splits the warp (in the machine code for sm_90): lanes 0–16 load and add both their pixels, then lanes
//         17–31 theirs. So each row waits for memory twice, and 64 warps per SM have at most 8.7 KB in flight, less than
//         a multiprocessor's share of the bandwidth times the latency.
#include "vec.h"

extern "C" __global__ void global_avg_pool(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int images, int channels, int pixels) {
    int lane = threadIdx.x % 32;
    unsigned c = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;  // range [0, images·channels), rounded up to whole blocks
    if (c >= images * channels) return;
    float sum = 0.0f;
    for (unsigned p = lane * VECTOR; p < pixels; p += 32 * VECTOR) {  // VECTOR divides pixels
        float v[VECTOR];
        load(v, x + c * pixels + p);
        for (int i = 0; i < VECTOR; ++i) sum += v[i];
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (lane == 0) out[c] = (scalar_t)(sum / (float)pixels);
}
