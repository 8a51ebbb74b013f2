// clamp, rung 1 "naive": out[i] = min(max(x[i], low), high), one thread an element. ReLU6 is the range [0, 6].
//
// Moves   n elements in, n out.
// Gains   nothing by itself: as a step of its own it reads and writes the whole activation once more. A convolution
//         that clamps its sums before it stores them does the same for free (conv2d's `activation`).
// Costs   2n element transfers for 2n comparisons.
#include <cuda_fp16.h>

extern "C" __global__ void clamp(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, float low, float high, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, n), rounded up to whole blocks
    if (i < n) {
        float v = (float)x[i];
        out[i] = (scalar_t)(v < low ? low : v > high ? high : v);  // a NaN is neither: it stays
    }
}
