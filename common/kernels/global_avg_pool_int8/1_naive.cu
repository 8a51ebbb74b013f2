// global_avg_pool_int8, rung 1 "naive": the mean of each channel, from int32 sums; one thread per channel of an image.
//
//   out[n, c] = clamp(round((bias + sum over p of x[n, p, c]) · multiplier) + zero_point, -128, 127)
//   x (N, pixels, C): NHWC; bias = -pixels · zero point of x; multiplier = scale of x / scale of out / pixels.
//
// Moves   N·pixels·C bytes of x, N·C of out.
// Gains   an exact sum, in any order: no digits are lost, however large the window.
// Costs   loads of one byte, 32 per request, and a single warp's worth of parallelism per 32 channels.
#include "requantize.h"

extern "C" __global__ void global_avg_pool_int8(const signed char* __restrict__ x, signed char* __restrict__ out, int N, int C, int pixels,
                                                int bias, float multiplier, int zero_point) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, N·C), rounded up to whole blocks
    if (i >= N * C) return;
    int acc = bias;
    for (int p = 0; p < pixels; ++p) acc += x[(i / C * pixels + p) * C + i % C];
    out[i] = (signed char)requantize(acc, multiplier, zero_point, -128, 127);
}
