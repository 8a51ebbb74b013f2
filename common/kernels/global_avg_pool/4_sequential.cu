// global_avg_pool, rung 4 "sequential": as rung 3, but the sums that are left are neighbours, too.
//
//   The upper half of them is added to the lower half. Of an odd number the middle one stays where it is.
//
// Moves   as rung 2.
// Gains   few warps and no bank conflicts: lane k loads the words k and k + half.
// Costs   a barrier of the block per step, also when a single warp is left, and a round trip through shared memory.
#include <cuda_fp16.h>

extern "C" __global__ void global_avg_pool(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int images, int channels, int pixels) {
    __shared__ float s[THREADS];
    int c = blockIdx.x, t = threadIdx.x, threads = blockDim.x;  // c: range [0, images·channels); threads ≤ THREADS
    float sum = 0.0f;
    for (unsigned p = t; p < pixels; p += threads) sum += (float)x[c * pixels + p];
    s[t] = sum;
    __syncthreads();
    for (int left = threads; left > 1; left = (left + 1) / 2) {
        int half = (left + 1) / 2;
        if (t + half < left) s[t] += s[t + half];
        __syncthreads();
    }
    if (t == 0) out[c] = (scalar_t)(s[0] / (float)pixels);
}
