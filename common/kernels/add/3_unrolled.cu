// add, rung 3 "unrolled": a thread loads UNROLL elements of each array, blockDim.x apart, and then adds them.
//
// Moves   3n elements, as rung 1, in as many requests: each access is still one element wide, and coalesced.
// Gains   bytes in flight: up to 2 · UNROLL loads per thread instead of 2. And 1 / UNROLL as many blocks as rung 1, so that a
//         block does UNROLL times the work before another one takes its place. Only the last block needs bounds checks, so
//         in the others no load is behind a branch, and all are issued before one is used.
// Costs   2 · UNROLL registers, one per load in flight. It differs from rung 4 only in the width of an access.
#include <cuda_fp16.h>

extern "C" __global__ void add(const scalar_t* __restrict__ a, const scalar_t* __restrict__ b, scalar_t* __restrict__ out, int n) {
    unsigned first = blockIdx.x * blockDim.x * UNROLL + threadIdx.x;
    scalar_t x[UNROLL], y[UNROLL];
    if (first + (UNROLL - 1) * blockDim.x < n) {  // all of this thread's elements exist
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) x[u] = a[first + u * blockDim.x], y[u] = b[first + u * blockDim.x];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) out[first + u * blockDim.x] = (scalar_t)((float)x[u] + (float)y[u]);
        return;
    }
    for (unsigned i = first; i < n; i += blockDim.x) out[i] = (scalar_t)((float)a[i] + (float)b[i]);  // at most UNROLL - 1
}
