// activate, rung 2 "vectorised": VECTOR neighbouring elements a thread, in accesses of 16 bytes where addresses allow it.
//
// Moves   n elements in, n out, with a VECTOR-th of rung 1's requests.
// Gains   more bytes of a thread in flight before it waits, as add's rung 3; VECTOR times fewer threads to start.
// Costs   a tail of up to VECTOR - 1 elements, taken one by one; a compilation more for arrays that start elsewhere than
//         at a multiple of 16 bytes.
#include "activations.h"
#include "vec.h"

extern "C" __global__ void activate(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, float alpha, float beta, int n) {
    unsigned threads = gridDim.x * blockDim.x, thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned vectors = n / VECTOR;
    for (unsigned i = thread; i < vectors; i += threads) {  // range [0, vectors)
        float v[VECTOR];
        load(v, x + i * VECTOR);
        for (int k = 0; k < VECTOR; ++k) v[k] = FUNCTION(v[k], alpha, beta);
        store(out + i * VECTOR, v);
    }
    unsigned i = vectors * VECTOR + thread;  // the last n % VECTOR elements, one a thread
    if (i < n) out[i] = (scalar_t)FUNCTION((float)x[i], alpha, beta);
}
