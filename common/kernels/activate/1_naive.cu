// activate, rung 1 "naive": out[i] = f(x[i]), one thread per element; f is a function of activations.h.
//
// Moves   n elements in, n out, once each.
// Gains   one kernel for all functions: -DFUNCTION names the one that is compiled in, so no thread asks which.
// Costs   a pass over the whole activation for a few operations an element, and as many threads as elements.
#include <cuda_fp16.h>
#include "activations.h"

extern "C" __global__ void activate(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, float alpha, float beta, int n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, n), rounded up to whole blocks
    if (i < n) out[i] = (scalar_t)FUNCTION((float)x[i], alpha, beta);
}
