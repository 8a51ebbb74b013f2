// conv2d_int8, rung 1 "naive": a convolution of int8 numbers with int32 sums; one thread per output, from the definition.
//
//   acc = bias[o] + sum over kh, kw, c of weight[o, kh, kw, c] · x[n, ih, iw, first + c]     int32, exact
//   y[n, oh, ow, o] = clamp(round(acc · multiplier[o]) + zero_point, low, high); with a residual as in pointwise_int8, rung 1
//   with ih = oh·stride_h - pad_top + kh·dilation_h (iw alike), first the first channel of o's group. Outside the image x is
//   input_zero_point, the real number 0. x (N, H, W, C), y and residual (N, oH, oW, O), weight (O, kH, kW, C / groups): NHWC.
//
// Moves   at least x + weight + residual + y, once, one byte per element.
// Gains   any kernel size, stride, padding, dilation and groups; sums that no order of the products changes.
// Costs   a load of a single byte for each factor, and a bounds check per tap.
#include "epilogue_int8.h"

extern "C" __global__ void conv2d_int8(
    const signed char* __restrict__ x, const signed char* __restrict__ weight, const int* __restrict__ bias,
    const float* __restrict__ multiplier, const signed char* __restrict__ residual, signed char* __restrict__ y,
    int N, int C, int H, int W, int O, int oH, int oW, int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left,
    int dilation_h, int dilation_w, int groups, int input_zero_point, int zero_point, int low, int high,
    float scale_a, float scale_b, float shift, int offset) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, N·oH·oW·O), rounded up to whole blocks
    if (i >= N * oH * oW * O) return;
    const int o = i % O, ow = i / O % oW, oh = i / O / oW % oH, n = i / O / oW / oH;
    const int per_group = C / groups, first = o / (O / groups) * per_group;

    int acc[4] = {bias ? bias[o] : 0};
    for (int kh = 0; kh < kH; ++kh)
        for (int kw = 0; kw < kW; ++kw) {
            const int ih = oh * stride_h - pad_top + kh * dilation_h, iw = ow * stride_w - pad_left + kw * dilation_w;
            const bool inside = ih >= 0 && ih < H && iw >= 0 && iw < W;
            const signed char *from = x + ((n * H + ih) * W + iw) * C + first, *w = weight + ((o * kH + kh) * kW + kw) * per_group;
            for (int c = 0; c < per_group; ++c) acc[0] += w[c] * (inside ? from[c] : input_zero_point);
        }
    const float m[4] = {multiplier[o]};
    finish<false>(y + i, acc, m, residual ? residual + i : residual, 1, {zero_point, low, high, scale_a, scale_b, shift, offset});
}
