// global_avg_pool, rung 1 "naive": out[n, c] = mean of x[n, c] over its pixels, one thread per channel.
//
// Moves   images·channels·pixels elements in, images·channels out. One addition per element.
// Gains   no barrier, no shared memory; the sum of a channel stays in one register.
// Costs   few threads (1,280 for MobileNetV2 at batch 1), each with a chain of `pixels` additions that wait for each other;
//         and neighbours load `pixels` apart: a warp's load touches up to 32 sectors where 4 would do. The L1
//         cache makes up for that as long as it keeps a sector until the next pixels need it.
#include <cuda_fp16.h>

extern "C" __global__ void global_avg_pool(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int images, int channels, int pixels) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, images·channels), rounded up to whole blocks
    if (c >= images * channels) return;
    float sum = 0.0f;
    for (int p = 0; p < pixels; ++p) sum += (float)x[c * pixels + p];
    out[c] = (scalar_t)(sum / (float)pixels);
}
