// concat, rung 1 "naive": out[r, offset + c] = x[r, c], one thread an element; a launch for each array that is joined.
//
//   In memory x is rows of `columns` elements and out as many rows of `row_length`. Along the channels, a row is an image
//   in NCHW, and a pixel in NHWC.
//
// Moves   the elements of x in and out, once each.
// Gains   one text for any dimension, rank and layout, and for as many arrays as there are.
// Costs   a pass for no arithmetic at all: a convolution that writes its channels into their place in out saves it. A
//         division a thread, and as many threads as elements.
#include <cuda_fp16.h>

extern "C" __global__ void concat(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int rows, int columns, int offset, int row_length) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, rows·columns), rounded up to whole blocks
    if (i >= (unsigned)rows * columns) return;
    unsigned r = i / columns, c = i % columns;
    out[r * row_length + offset + c] = x[i];
}
