// add, rung 2 "grid_stride": a fixed number of threads T; thread t adds the elements t, t + T, t + 2T, …
//
// Moves   3n elements, as rung 1. In each round neighbours still touch neighbouring addresses.
// Gains   the grid depends on the card, not on n: as many threads as it holds at once, started once. What a thread works
//         out before its loop, it works out once, and any n fits, also one that a grid could not.
// Costs   the loop's own instructions; a last round that is rarely full. Its bytes under way are still few: a thread asks
//         for two elements and waits for them, 2,048 threads on a multiprocessor for 16 KB of floats or 8 KB of halves.
#include <cuda_fp16.h>

extern "C" __global__ void add(const scalar_t* __restrict__ a, const scalar_t* __restrict__ b, scalar_t* __restrict__ out, int n) {
    unsigned threads = gridDim.x * blockDim.x;  // unsigned: n + threads may be beyond 2³¹
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads)  // range [0, n)
        out[i] = (scalar_t)((float)a[i] + (float)b[i]);
}
