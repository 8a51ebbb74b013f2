// multiply, rung 1 "naive": out[i] = a[…] · b[…], one thread an element; an operand that is broadcast has steps of 0.
//
//   Element i of out, in its order in memory, is (i0, i1, i2, i3) of (d0, d1, d2, d3); it takes a at the sum of i0·a0 to
//   i3·a3, and b alike. The launcher merges dimensions: equal shapes are one, the rest are of size 1.
//
// Moves   both operands in, out out. A channel's one factor (squeeze and excite) comes from cache for all its pixels.
// Gains   any broadcasting, in either layout, with one text and no copy of what is broadcast.
// Costs   three divisions a thread to find its place, by numbers that the compiler does not know.
#include <cuda_fp16.h>

extern "C" __global__ void multiply(const scalar_t* __restrict__ a, const scalar_t* __restrict__ b, scalar_t* __restrict__ out,
                                    int d1, int d2, int d3, int a0, int a1, int a2, int a3, int b0, int b1, int b2, int b3, int n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, n), rounded up to whole blocks
    if (i >= n) return;
    unsigned i3 = i % d3, row = i / d3, i2 = row % d2, i1 = row / d2 % d1, i0 = row / d2 / d1;
    float x = (float)a[i0 * a0 + i1 * a1 + i2 * a2 + i3 * a3];
    float y = (float)b[i0 * b0 + i1 * b1 + i2 * b2 + i3 * b3];
    out[i] = (scalar_t)(x * y);
}
