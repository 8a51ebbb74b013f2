// binary, rung 1 "naive": out[i] = f(a[…], b[…]), one thread per element; f is add, subtract, divide, maximum or minimum.
//
//   Indices as in multiply's rung 1: element i of out, in its order in memory, is (i0, i1, i2, i3) of (d0, d1, d2, d3); it
//   takes a at the sum of i0·a0 to i3·a3, and b alike. An operand that is broadcast along a dimension has the step 0 there.
//
// Moves   both operands in, out out, once each; what is broadcast comes from cache.
// Gains   any broadcasting, in either layout, of five functions: -DFUNCTION names the one that is compiled in.
// Costs   three integer divisions per thread, and a pass over two activations for one operation per element.
#include <cuda_fp16.h>

__device__ __forceinline__ float add(float x, float y) { return x + y; }
__device__ __forceinline__ float subtract(float x, float y) { return x - y; }
__device__ __forceinline__ float divide(float x, float y) { return x / y; }
__device__ __forceinline__ float maximum(float x, float y) { return x > y || x != x ? x : y; }  // a NaN in either stays
__device__ __forceinline__ float minimum(float x, float y) { return x < y || x != x ? x : y; }

extern "C" __global__ void binary(const scalar_t* __restrict__ a, const scalar_t* __restrict__ b, scalar_t* __restrict__ out,
                                  int d1, int d2, int d3, int a0, int a1, int a2, int a3, int b0, int b1, int b2, int b3, int n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, n), rounded up to whole blocks
    if (i >= n) return;
    unsigned i3 = i % d3, row = i / d3, i2 = row % d2, i1 = row / d2 % d1, i0 = row / d2 / d1;
    float x = (float)a[i0 * a0 + i1 * a1 + i2 * a2 + i3 * a3];
    float y = (float)b[i0 * b0 + i1 * b1 + i2 * b2 + i3 * b3];
    out[i] = (scalar_t)FUNCTION(x, y);
}
