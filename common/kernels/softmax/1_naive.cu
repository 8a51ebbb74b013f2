// softmax, rung 1 "naive": out[r, c] = exp(x[r, c] - max_r) / sum_c exp(x[r, c] - max_r), one thread a row.
//
//   x is (outer, columns, inner), and a row the columns of one outer and one inner index: of the last dimension inner is 1.
//
// Moves   3·rows·columns elements in (three passes, the later two mostly from cache), rows·columns out.
// Gains   exactness: with the row's maximum taken off first, no exponential overflows.
// Costs   a thread for a whole row, and where inner is 1 neighbouring threads read addresses a row apart: uncoalesced.
#include <cuda_fp16.h>

extern "C" __global__ void softmax(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int rows, int columns, int inner) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, rows), rows = outer·inner, rounded up to whole blocks
    if (r >= rows) return;
    x += r / inner * columns * inner + r % inner;
    out += r / inner * columns * inner + r % inner;

    float largest = (float)x[0];
    for (int c = 1; c < columns; ++c) largest = fmaxf(largest, (float)x[c * inner]);
    float sum = 0.0f;
    for (int c = 0; c < columns; ++c) sum += expf((float)x[c * inner] - largest);
    for (int c = 0; c < columns; ++c) out[c * inner] = (scalar_t)(expf((float)x[c * inner] - largest) / sum);
}
