// global_avg_pool, rung 8 "channels_last": for NHWC. Lanes lie along the channels, VECTOR channels per lane; a
// block takes 32·VECTOR channels of an image, and its warps share the pixels.
//
// Moves   as rung 1; a request is 32·VECTOR neighbouring channels of one pixel.
// Gains   nothing is added across lanes: a lane's channels are its own, in registers, until the warps' sums meet in shared
//         memory, once. ITEMS pixels per lane are in flight before the first is needed.
// Costs   one barrier. At batch 1 there are few blocks: 1,280 channels are 5 of 256, so VECTOR is 1 there, which makes 40.
//         With 8 floats per lane, the stores to shared memory take twice the wavefronts that they should.
#include "vec.h"

extern "C" __global__ void global_avg_pool(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int images, int channels, int pixels) {
    __shared__ float s[WARPS][32 * VECTOR];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;  // warps ≤ WARPS
    int groups = (channels + 32 * VECTOR - 1) / (32 * VECTOR);
    unsigned image = blockIdx.x / groups;  // range [0, images)
    int first = blockIdx.x % groups * 32 * VECTOR, c = first + lane * VECTOR;  // VECTOR divides channels
    float sum[VECTOR] = {};
    if (c < channels)
        for (unsigned p = warp; p < pixels; p += ITEMS * warps) {
            float v[ITEMS][VECTOR];
#pragma unroll
            for (int i = 0; i < ITEMS; ++i)
                load(v[i], x + (image * pixels + min(p + i * warps, pixels - 1)) * channels + c);
#pragma unroll
            for (int i = 0; i < ITEMS * VECTOR; ++i)
                sum[i % VECTOR] += p + i / VECTOR * warps < pixels ? v[i / VECTOR][i % VECTOR] : 0.0f;
        }
    store(&s[warp][lane * VECTOR], sum);
    __syncthreads();
    for (int t = threadIdx.x; t < 32 * VECTOR && first + t < channels; t += blockDim.x) {
        float total = 0.0f;
        for (int w = 0; w < warps; ++w) total += s[w][t];
        out[image * channels + first + t] = (scalar_t)(total / (float)pixels);
    }
}
