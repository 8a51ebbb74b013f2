// layer_norm, rung 1 "naive": out = (x - mean) / sqrt(variance + eps) · weight + bias along one dimension, one thread per row.
//
//   x is (outer, columns, inner) in memory, and a row the columns of one outer and one inner index. Over the channels of an
//   image, columns is C: in NCHW a row's elements lie inner = H·W apart, in NHWC side by side (inner = 1).
//
// Moves   x in three times (mean, variance, result), the second and third time from cache while rows fit; out out once.
// Gains   accuracy: the variance is the mean of squared deviations, not E[x²] - E[x]², which cancels for a large mean.
//         In NCHW the lanes of a warp are neighbouring pixels, and every access is coalesced.
// Costs   in NHWC neighbouring threads read addresses columns apart: each lane asks for a sector of its own.
// Source  J. L. Ba, J. R. Kiros, G. E. Hinton, "Layer Normalization", arXiv:1607.06450; Z. Liu et al., "A ConvNet for the
//         2020s", arXiv:2201.03545, where the row is a pixel's channels
#include <cuda_fp16.h>

extern "C" __global__ void layer_norm(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight,
                                      const scalar_t* __restrict__ bias, scalar_t* __restrict__ out, int rows, int columns,
                                      int inner, float eps) {
    unsigned r = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, rows), rows = outer·inner, rounded up to whole blocks
    if (r >= rows) return;
    x += r / inner * columns * inner + r % inner;
    out += r / inner * columns * inner + r % inner;

    float sum = 0.0f, squares = 0.0f;
    for (int c = 0; c < columns; ++c) sum += (float)x[c * inner];
    float mean = sum / (float)columns;
    for (int c = 0; c < columns; ++c) {
        float deviation = (float)x[c * inner] - mean;
        squares += deviation * deviation;
    }
    float scale = 1.0f / sqrtf(squares / (float)columns + eps);
    for (int c = 0; c < columns; ++c) {
        float v = ((float)x[c * inner] - mean) * scale;
        out[c * inner] = (scalar_t)(v * (weight ? (float)weight[c] : 1.0f) + (bias ? (float)bias[c] : 0.0f));
    }
}
