// add, rung 4 "vectorised": VECTOR neighbouring elements per access, 16 bytes where the arrays' addresses allow it.
//
// Moves   3n elements, as rung 1, with VECTOR times fewer requests: 4 floats or 8 halves in each.
// Gains   bytes in flight. By Little's law, to load at a rate R, R × latency bytes must be in flight at all times; on a busy
//         card loads take longer, so it needs more of them. A multiprocessor has at most 2,048 threads, and each has one
//         load of a and one of b in flight:
//         16 KB of floats or 8 KB of halves in rung 2. With 16 bytes per access it is at most 64 KB. And a block does
//         four or eight times the work before another one takes its place.
// Costs   a tail of up to VECTOR - 1 elements, added one by one; one more compilation for arrays that do not start at a
//         multiple of 16 bytes, for which VECTOR is smaller, down to 1.
#include "vec.h"

extern "C" __global__ void add(const scalar_t* __restrict__ a, const scalar_t* __restrict__ b, scalar_t* __restrict__ out, int n) {
    unsigned threads = gridDim.x * blockDim.x, thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned vectors = n / VECTOR;
    for (unsigned i = thread; i < vectors; i += threads) {  // range [0, vectors)
        float x[VECTOR], y[VECTOR];
        load(x, a + i * VECTOR);
        load(y, b + i * VECTOR);
        for (int k = 0; k < VECTOR; ++k) x[k] += y[k];
        store(out + i * VECTOR, x);
    }
    unsigned i = vectors * VECTOR + thread;  // the last n % VECTOR elements, one a thread
    if (i < n) out[i] = (scalar_t)((float)a[i] + (float)b[i]);
}
