// permute, rung 1 "naive": out[i0, i1, i2, i3] = x[i0·s0 + i1·s1 + i2·s2 + i3·s3], one thread an element of out.
//
//   out is C-contiguous, (d0, d1, d2, d3); s0 to s3 are x's steps along the dimensions of out, in elements.
//
// Moves   x in, out out, once each, if caches keep what is read in part until the rest of it is asked for.
// Gains   any order of up to four dimensions, NHWC to NCHW among them. Neighbouring threads write neighbouring elements.
// Costs   reads that are s3 elements apart: where that is not 1, each lane of a warp asks for a sector of its own, 32 bytes
//         for 4 or 2.
#include <cuda_fp16.h>

extern "C" __global__ void permute(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int d0, int d1, int d2, int d3,
                                   int s0, int s1, int s2, int s3) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, d0·d1·d2·d3), rounded up to whole blocks
    unsigned row = i / d3, i3 = i % d3, i2 = row % d2, i1 = row / d2 % d1, i0 = row / d2 / d1;
    if (i0 < d0) out[i] = x[i0 * s0 + i1 * s1 + i2 * s2 + i3 * s3];
}
