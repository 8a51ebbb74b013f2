// strided_slice, rung 1 "naive": out[i0, i1, i2, i3] = x[start + i0·s0 + i1·s1 + i2·s2 + i3·s3], one thread per element of out.
//
//   out is dense, (d0, d1, d2, d3) in its order in memory; start is the first element of the slice in x, s0 to s3 are x's
//   steps along the dimensions of out, in elements. A slice that runs backwards has negative steps.
//
// Moves   the elements of the slice in and out, once each. With a step s3 > 1 a warp reads s3 times the sectors.
// Gains   any slice of any dimensions, in either layout, with one text; the elements are copied, none is computed.
// Costs   a pass for no arithmetic at all: a consumer that reads x at start saves it. Three integer divisions per thread.
#include <cuda_fp16.h>

extern "C" __global__ void strided_slice(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int start, int d1, int d2,
                                         int d3, int s0, int s1, int s2, int s3, int n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, n), rounded up to whole blocks
    if (i >= n) return;
    unsigned row = i / d3;
    int i3 = i % d3, i2 = row % d2, i1 = row / d2 % d1, i0 = row / d2 / d1;
    out[i] = x[start + i0 * s0 + i1 * s1 + i2 * s2 + i3 * s3];
}
