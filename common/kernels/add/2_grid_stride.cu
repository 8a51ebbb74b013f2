// add, rung 2 "grid_stride": a fixed number of threads T; thread t adds the elements t, t + T, t + 2T, …
//
// Moves   3n elements, as rung 1. In each round neighbours still access neighbouring addresses.
// Gains   the grid depends on the card, not on n: as many threads as the card holds at once, started once. What a thread
//         computes before its loop, it computes once, and any n fits, also one for which a grid would be too large.
// Costs   the loop's own instructions; a last round that is rarely full. Few bytes are in flight: a thread requests two
//         elements and waits for them, so the 2,048 threads of a multiprocessor have at most 16 KB of floats or 8 KB of halves.
#include <cuda_fp16.h>

extern "C" __global__ void add(const scalar_t* __restrict__ a, const scalar_t* __restrict__ b, scalar_t* __restrict__ out, int n) {
    unsigned threads = gridDim.x * blockDim.x;  // unsigned: i + threads may be beyond 2³¹
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads)  // range [0, n)
        out[i] = (scalar_t)((float)a[i] + (float)b[i]);
}
