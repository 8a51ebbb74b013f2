// add_int8, rung 1 "naive": the sum of two int8 arrays with scales of their own; one thread per element.
//
//   out = clamp(round(a · scale_a + (b · scale_b + shift)), low, high), two fma, ties to even
//   for a, b and out that stand for real numbers: scale_a = scale of a / scale of out, scale_b alike, shift the zero points.
//
// Moves   3n bytes: n elements of a, of b and of out.
// Gains   one pass, in which both inputs are brought to the scale of the sum.
// Costs   loads and stores of one byte per thread: 32 bytes per request.
#include "requantize.h"

extern "C" __global__ void add_int8(const signed char* __restrict__ a, const signed char* __restrict__ b, signed char* __restrict__ out,
                                    float scale_a, float scale_b, float shift, int offset, int low, int high, int n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, n), rounded up to whole blocks
    if (i < n) out[i] = (signed char)add_scaled(a[i], b[i], scale_a, scale_b, shift, offset, low, high);
}
