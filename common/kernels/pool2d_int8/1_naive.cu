// pool2d_int8, rung 1 "naive": the largest input of a window (MAX = 1) or its mean (MAX = 0), in int8; one thread per output.
//
//   The windows are those of pool2d, and so is the number by which the mean divides, `count`.
//   MAX = 1: out = the largest x, in the scale of x. MAX = 0: out = clamp(round(acc · (multiplier / count)) + zero_point), where
//   acc = sum of (x - input_zero_point) over the window's pixels in the image. x (N, H, W, C), out (N, oH, oW, C): NHWC.
//
// Moves   x once where windows do not overlap; where they do, kH·kW loads of a byte per output, and caches serve most of them.
// Gains   any kernel size, stride, padding and dilation; an exact sum.
// Costs   loads of one byte, a bounds check per tap, and for the mean a division per output.
#include "requantize.h"

extern "C" __global__ void pool2d_int8(const signed char* __restrict__ x, signed char* __restrict__ out, int C, int H, int W, int oH, int oW,
                                       int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_bottom, int pad_left, int pad_right,
                                       int dilation_h, int dilation_w, int count_include_pad, float multiplier, int input_zero_point,
                                       int zero_point, int n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, n), n = N·oH·oW·C, rounded up to whole blocks
    if (i >= n) return;
    const int c = i % C, ow = i / C % oW, oh = i / C / oW % oH;
    const signed char* const in = x + i / C / oW / oH * (H * W * C) + c;
    int acc = MAX ? -128 : 0, count = 0;
    for (int kh = 0; kh < kH; ++kh)
        for (int kw = 0; kw < kW; ++kw) {
            const int ih = oh * stride_h - pad_top + kh * dilation_h, iw = ow * stride_w - pad_left + kw * dilation_w;
            const bool inside = (unsigned)ih < (unsigned)H && (unsigned)iw < (unsigned)W;
            count += inside || (count_include_pad && ih < H + pad_bottom && iw < W + pad_right);
            if (!inside) continue;
            const int v = in[(ih * W + iw) * C];
            acc = MAX ? max(acc, v) : acc + v - input_zero_point;
        }
    out[i] = (signed char)(MAX ? acc : requantize(acc, __fdiv_rn(multiplier, (float)count), zero_point, -128, 127));
}
