// global_avg_pool, rung 3 "strided_index": as rung 2, but the threads that add are neighbours.
//
// Moves   as rung 2.
// Gains   no warp executes a step in which none of its lanes adds: in step d the first threads / 2d threads add, so half of
//         the warps are idle after the first step, three quarters after the second.
// Costs   bank conflicts, which take back what was gained: lane k loads the word 2d·k, and such words share 32 / 2d banks.
//         With 64 threads, for 7×7 pixels, there are two warps, and little of either to be seen.
#include <cuda_fp16.h>

extern "C" __global__ void global_avg_pool(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int images, int channels, int pixels) {
    __shared__ float s[THREADS];
    int c = blockIdx.x, t = threadIdx.x, threads = blockDim.x;  // c: range [0, images·channels); threads ≤ THREADS
    float sum = 0.0f;
    for (unsigned p = t; p < pixels; p += threads) sum += (float)x[c * pixels + p];
    s[t] = sum;
    __syncthreads();
    for (int step = 1; step < threads; step *= 2) {
        int i = 2 * step * t;
        if (i + step < threads) s[i] += s[i + step];
        __syncthreads();
    }
    if (t == 0) out[c] = (scalar_t)(s[0] / (float)pixels);
}
