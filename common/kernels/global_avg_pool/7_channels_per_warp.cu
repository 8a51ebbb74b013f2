// global_avg_pool, rung 7 "channels_per_warp": a warp takes CHANNELS neighbouring channels at once.
//
//   In each step a lane gives half of its sums away. With 4 of them: lanes 0–15 give their sums 2 and 3 to lanes 16–31 and
//   get sums 0 and 1 for them; then lanes 0–7 give sum 1 to lanes 8–15 for their sum 0. Now each lane has one sum, channel
//   lane / 8, and three more steps add up each eight lanes: 2 + 1 + 3 shuffles instead of 4 · 5.
//
// Moves   as rung 6. Lanes without a pixel load the row's last one again, which costs no sector: without a
//         condition the lanes stay together, so all CHANNELS · ITEMS loads of a lane are in flight before the first is needed.
// Gains   for 7×7 pixels, one wait for memory for CHANNELS rows instead of two per row, with up to 50 KB in flight per SM; and
//         what a warp does once, it does for CHANNELS channels: with 4 of them about 40 instructions per channel are left of 100.
// Costs   registers for what is in flight; channels beyond the last are the last one again, loaded and not used.
#include "vec.h"

extern "C" __global__ void global_avg_pool(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int images, int channels, int pixels) {
    int lane = threadIdx.x % 32;
    unsigned all = images * channels;
    unsigned c = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * CHANNELS;  // range [0, all), rounded up to whole blocks
    if (c >= all) return;
    float sum[CHANNELS] = {};
    for (unsigned p = lane * VECTOR; p < pixels; p += ITEMS * 32 * VECTOR) {  // VECTOR divides pixels
        float v[CHANNELS][ITEMS][VECTOR];
#pragma unroll
        for (int k = 0; k < CHANNELS; ++k)
#pragma unroll
            for (int i = 0; i < ITEMS; ++i)
                load(v[k][i], x + min(c + k, all - 1) * pixels + min(p + i * 32 * VECTOR, pixels - VECTOR));
#pragma unroll
        for (int k = 0; k < CHANNELS; ++k)
#pragma unroll
            for (int i = 0; i < ITEMS * VECTOR; ++i)
                sum[k] += p + i / VECTOR * 32 * VECTOR < pixels ? v[k][i / VECTOR][i % VECTOR] : 0.0f;
    }
    int step = 16;
#pragma unroll
    for (int kept = CHANNELS / 2; kept > 0; kept /= 2, step /= 2)
#pragma unroll
        for (int k = 0; k < kept; ++k) {
            float given = lane & step ? sum[k] : sum[k + kept];
            sum[k] = (lane & step ? sum[k + kept] : sum[k]) + __shfl_xor_sync(0xffffffffu, given, step);
        }
    for (; step > 0; step /= 2) sum[0] += __shfl_xor_sync(0xffffffffu, sum[0], step);
    c += lane / (32 / CHANNELS);
    if (lane % (32 / CHANNELS) == 0 && c < all) out[c] = (scalar_t)(sum[0] / (float)pixels);
}
