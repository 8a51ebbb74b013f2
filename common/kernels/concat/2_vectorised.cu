// concat, rung 2 "vectorised": VECTOR neighbouring elements of a row a thread, 16 bytes where addresses and rows allow it.
//
// Moves   as rung 1, with a VECTOR-th of the requests.
// Gains   bytes in flight, as add's rung 3, and one division for VECTOR elements.
// Costs   VECTOR must divide the offset and, of more rows than one, their lengths: 7×7 pixels in NCHW leave 1. One row may
//         have any length; its last elements are copied one by one.
#include "vec.h"

extern "C" __global__ void concat(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int rows, int columns, int offset, int row_length) {
    unsigned vectors = (columns + VECTOR - 1) / VECTOR;  // of a row, the last of which may be a part
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, rows·vectors), rounded up to whole blocks
    if (i >= rows * vectors) return;
    unsigned r = i / vectors, c = i % vectors * VECTOR;
    x += r * columns;
    out += r * row_length + offset;
    if (c + VECTOR <= columns) {
        float v[VECTOR];
        load(v, x + c);
        store(out + c, v);  // a half that became a float becomes the same half again
    } else {
        for (; c < columns; ++c) out[c] = x[c];
    }
}
