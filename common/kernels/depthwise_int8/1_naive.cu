// depthwise_int8, rung 1 "naive": each channel has its own filter; one thread per output, straight from the definition.
//
//   acc = bias[c] + sum over kh, kw of weight[c, kh, kw] · x[n, ih, iw, c]     int32, exact
//   y[n, oh, ow, c] = clamp(round(acc · multiplier[c]) + zero_point, low, high)
//   with ih = oh·stride_h - pad_top + kh·dilation_h (iw alike). Outside the image x is input_zero_point, the real number 0.
//   x (N, H, W, C), y (N, oH, oW, C): NHWC; weight (C, kH, kW). bias (C) int32 holds -z·Σ weight, or is null.
//
// Moves   at least x + weight + y, once, one byte per element. The threads ask for 18 bytes per output of a 3×3 filter.
// Gains   any kernel size, stride, padding and dilation; sums that no order of the taps changes.
// Costs   a load of a single byte for each factor, four divisions that find the coordinates, a bounds check per tap.
#include "requantize.h"

extern "C" __global__ void depthwise_int8(
    const signed char* __restrict__ x, const signed char* __restrict__ weight, const int* __restrict__ bias,
    const float* __restrict__ multiplier, signed char* __restrict__ y, int N, int C, int H, int W, int oH, int oW,
    int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w,
    int input_zero_point, int zero_point, int low, int high) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, N·oH·oW·C), rounded up to whole blocks
    if (i >= N * C * oH * oW) return;
    const int c = i % C, ow = i / C % oW, oh = i / C / oW % oH, n = i / C / oH / oW;

    int acc = bias ? bias[c] : 0;
    for (int kh = 0; kh < kH; ++kh)
        for (int kw = 0; kw < kW; ++kw) {
            const int ih = oh * stride_h - pad_top + kh * dilation_h, iw = ow * stride_w - pad_left + kw * dilation_w;
            const bool inside = ih >= 0 && ih < H && iw >= 0 && iw < W;
            acc += weight[(c * kH + kh) * kW + kw] * (inside ? x[((n * H + ih) * W + iw) * C + c] : input_zero_point);
        }
    y[i] = (signed char)requantize(acc, multiplier[c], zero_point, low, high);
}
