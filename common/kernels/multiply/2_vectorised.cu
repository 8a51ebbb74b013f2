// multiply, rung 2 "vectorised": VECTOR neighbouring elements of a row a thread, 16 bytes where addresses and rows allow it.
//
//   A row is the innermost of the merged dimensions. Along it an operand steps by 1, or by 0 and is one number for all.
//
// Moves   as rung 1, with a VECTOR-th of the requests.
// Gains   bytes in flight, as add's rung 3, and the three divisions once for VECTOR elements. A channel's factor in NCHW is
//         one load for VECTOR pixels; in NHWC the factors of VECTOR channels are one.
// Costs   rows whose length no vector divides, as 7×7 pixels in NCHW: VECTOR is smaller there, at last 1. A row that is
//         the whole array may have any length; its last elements are multiplied one by one.
#include "vec.h"

__device__ __forceinline__ void load_row(float (&v)[VECTOR], const scalar_t* row, unsigned i, int step) {
    if (step)
        load(v, row + i);
    else
        for (int k = 0; k < VECTOR; ++k) v[k] = (float)*row;
}

extern "C" __global__ void multiply(const scalar_t* __restrict__ a, const scalar_t* __restrict__ b, scalar_t* __restrict__ out,
                                    int d1, int d2, int d3, int a0, int a1, int a2, int a3, int b0, int b1, int b2, int b3, int n) {
    unsigned vectors = (d3 + VECTOR - 1) / VECTOR;       // of a row, the last of which may be a part
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, rows·vectors), rounded up to whole blocks
    if (i >= n / d3 * vectors) return;
    unsigned i3 = i % vectors * VECTOR, row = i / vectors, i2 = row % d2, i1 = row / d2 % d1, i0 = row / d2 / d1;
    a += i0 * a0 + i1 * a1 + i2 * a2;
    b += i0 * b0 + i1 * b1 + i2 * b2;
    out += row * d3;
    if (i3 + VECTOR <= d3) {
        float x[VECTOR], y[VECTOR];
        load_row(x, a, i3, a3);
        load_row(y, b, i3, b3);
        for (int k = 0; k < VECTOR; ++k) x[k] *= y[k];
        store(out + i3, x);
    } else {
        for (unsigned k = i3; k < d3; ++k) out[k] = (scalar_t)((float)a[k * a3] * (float)b[k * b3]);
    }
}
