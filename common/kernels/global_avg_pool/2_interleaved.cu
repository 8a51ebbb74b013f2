// global_avg_pool, rung 2 "interleaved": one block per channel; its threads' sums are added in pairs, in shared memory.
//
//   step 1: s[0] += s[1], s[2] += s[3], …   step 2: s[0] += s[2], s[4] += s[6], …   until s[0] has them all.
//   A thread whose partner does not exist adds nothing, so the block may have any number of threads.
//
// Moves   as rung 1, and now neighbours load neighbours: a warp's load touches 4 sectors of floats, 5 if it starts inside one.
// Gains   a chain of ceil(pixels / threads) + log2(threads) additions instead of `pixels`; threads for all pixels at once.
// Costs   one barrier per step, log2(threads) of them. In step d one thread in 2d adds, and its warp executes the step:
//         every warp takes part until d is 32. And one block per 49 numbers: at batch 256 that is 327,680 blocks, and
//         a card starts only so many in a microsecond, whatever they do.
#include <cuda_fp16.h>

extern "C" __global__ void global_avg_pool(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int images, int channels, int pixels) {
    __shared__ float s[THREADS];
    int c = blockIdx.x, t = threadIdx.x, threads = blockDim.x;  // c: range [0, images·channels); threads ≤ THREADS
    float sum = 0.0f;
    for (unsigned p = t; p < pixels; p += threads) sum += (float)x[c * pixels + p];
    s[t] = sum;
    __syncthreads();
    for (int step = 1; step < threads; step *= 2) {
        if (t % (2 * step) == 0 && t + step < threads) s[t] += s[t + step];
        __syncthreads();
    }
    if (t == 0) out[c] = (scalar_t)(s[0] / (float)pixels);
}
