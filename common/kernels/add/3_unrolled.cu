// add, rung 3 "unrolled": a thread loads UNROLL elements of each array, blockDim.x apart, and then adds them.
//
// Moves   3n elements, as rung 1, in as many requests: each access is still one element wide, and coalesced.
// Gains   bytes in flight: up to 2 · UNROLL loads per thread instead of 2. And 1 / UNROLL as many blocks as rung 1, so that a
//         block does UNROLL times the work before another one takes its place.
// Costs   2 · UNROLL registers, one per load in flight. In fp32 all loads are issued before one is used, so it differs from
//         rung 4 only in the width of an access; in fp16 the compiler uses the first pair before it issues the other loads.
#include <cuda_fp16.h>

extern "C" __global__ void add(const scalar_t* __restrict__ a, const scalar_t* __restrict__ b, scalar_t* __restrict__ out, int n) {
    unsigned first = blockIdx.x * blockDim.x * UNROLL + threadIdx.x;
    scalar_t x[UNROLL], y[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        unsigned i = first + u * blockDim.x;
        if (i < n) x[u] = a[i], y[u] = b[i];
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        unsigned i = first + u * blockDim.x;
        if (i < n) out[i] = (scalar_t)((float)x[u] + (float)y[u]);
    }
}
