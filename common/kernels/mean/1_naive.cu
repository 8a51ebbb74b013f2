// mean, rung 1 "naive": out[r] = the mean of a row of x, one thread per row.
//
//   x is (outer, columns, inner) in memory, and a row the columns of one outer and one inner index; out is (outer, inner).
//
// Moves   x in, out out, once each.
// Gains   any dimension of any layout: over the channels of an image in NCHW the lanes of a warp are neighbouring pixels.
// Costs   a thread for a whole row, and where inner is 1 neighbouring threads read addresses columns apart: uncoalesced.
#include <cuda_fp16.h>

extern "C" __global__ void mean(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int rows, int columns, int inner) {
    unsigned r = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, rows), rows = outer·inner, rounded up to whole blocks
    if (r >= rows) return;
    x += r / inner * columns * inner + r % inner;
    float sum = 0.0f;
    for (int c = 0; c < columns; ++c) sum += (float)x[c * inner];
    out[r] = (scalar_t)(sum / (float)columns);
}
