// pointwise_int8, rung 1 "naive": a 1×1 convolution of int8 numbers with int32 sums; one thread per output.
//
//   acc = bias[o] + sum over c of weight[o, c] · x[p, c]                       int32, exact
//   y[p, o] = clamp(round(acc · multiplier[o]) + zero_point, low, high)        int8; with out_t = float acc · multiplier[o]
//   With a residual r: a = clamp(round(acc · multiplier[o]) + zero_point, -128, 127),
//   y[p, o] = clamp(round(a · scale_a + (r[p, o] · scale_b + shift)), low, high).
//   x (P, C), weight (O, C), residual and y (P, O), P the pixels of all images: NHWC. bias (O) int32 holds -z·Σ weight for the
//   zero point z of x, multiplier (O) float32. bias and residual may be null.
//
// Moves   at least x + weight + residual + y once, one byte per element: a quarter of fp32's traffic, half of fp16's.
// Gains   the sums are exact, so the order of the products and the tiles change no bit of y.
// Costs   two loads of one byte per multiply-add, and an epilogue of two conversions, a product and a clamp per output.
#include "epilogue_int8.h"

extern "C" __global__ void pointwise_int8(
    const signed char* __restrict__ x, const signed char* __restrict__ weight, const int* __restrict__ bias,
    const float* __restrict__ multiplier, const signed char* __restrict__ residual, out_t* __restrict__ y,
    int N, int C, int O, int pixels, int zero_point, int low, int high, float scale_a, float scale_b, float shift, int offset) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, N·pixels·O), rounded up to whole blocks
    if (i >= N * pixels * O) return;
    const int o = i % O;
    x += i / O * C;
    weight += o * C;

    int acc[4] = {bias ? bias[o] : 0};
    for (int c = 0; c < C; ++c) acc[0] += weight[c] * x[c];
    const float m[4] = {multiplier[o]};
    finish<false>(y + i, acc, m, residual ? residual + i : residual, 1, {zero_point, low, high, scale_a, scale_b, shift, offset});
}
