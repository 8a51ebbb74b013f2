// global_avg_pool, rung 5 "warp_shuffle": as rung 4 until 32 sums are left; one warp adds those up in registers.
//
//   __shfl_down_sync gives each lane the register of the lane `step` further on.
//
// Moves   as rung 2.
// Gains   the last five steps need no barrier and no shared memory: of the 6 that a block of 64 threads has, one is left.
// Costs   the block must have whole warps. And still one block per 49 numbers: it is started, its 64 threads load one number
//         each, wait, meet at two barriers and end. What happens inside a block is not what takes the time.
#include <cuda_fp16.h>

extern "C" __global__ void global_avg_pool(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int images, int channels, int pixels) {
    __shared__ float s[THREADS];
    int c = blockIdx.x, t = threadIdx.x, threads = blockDim.x;  // c: range [0, images·channels); threads ≤ THREADS
    float sum = 0.0f;
    for (unsigned p = t; p < pixels; p += threads) sum += (float)x[c * pixels + p];
    s[t] = sum;
    __syncthreads();
    int left = threads;
    for (; left > 32; left = (left + 1) / 2) {
        int half = (left + 1) / 2;
        if (t + half < left) s[t] += s[t + half];
        __syncthreads();
    }
    if (t >= 32) return;
    sum = t < left ? s[t] : 0.0f;
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (t == 0) out[c] = (scalar_t)(sum / (float)pixels);
}
