// conv_transpose2d, rung 1 "naive": the transposed convolution, one thread per output element, which gathers what reaches it.
//
//   A convolution with this weight would read, for its output (ih, iw), the element (ih·stride - pad + kh·dilation, …).
//   Its transpose sends input (ih, iw) there. So an output collects, for each tap, the input from which the tap leads to it:
//
//   y[n, o, oh, ow] = clamp(bias[o] + residual[n, o, oh, ow]
//                           + sum over c, kh, kw of weight[g·I/G + c, o mod O/G, kh, kw] · x[n, g·I/G + c, ih, iw], low, high)
//   with ih = (oh + pad - kh·dilation) / stride, where that is an integer inside x (iw alike), g the group of o.
//   x (N, I, H, W), weight (I, O/G, kH, kW), bias (O) or null, residual (N, O, oH, oW) or null, y (N, O, oH, oW).
//   In memory all four are NCHW, or with NHWC=1 all four NHWC: channels last, weight as (I, kH, kW, O/G).
//
// Moves   at the least x + weight + residual + y. Asked for are two elements per multiply-add; caches serve most of them.
// Gains   every stride, padding, dilation and grouping without atomics, as each output has one writer; bias, residual and
//         activation cost no pass of their own. In NHWC a warp's lanes read neighbouring weights and the same input.
// Costs   with a stride of s only one in s² taps reaches an output, and which ones differs between neighbours: in NCHW the
//         lanes of a warp diverge. Two divisions per tap, two loads per multiply-add, none shared between threads.
// Source  V. Dumoulin, F. Visin, "A guide to convolution arithmetic for deep learning", arXiv:1603.07285, section 4
#include <cuda_fp16.h>

extern "C" __global__ void conv_transpose2d(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight,
                                            const scalar_t* __restrict__ bias, const scalar_t* __restrict__ residual,
                                            scalar_t* __restrict__ y, int I, int H, int W, int O, int oH, int oW, int kH, int kW,
                                            int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w,
                                            int groups, float low, float high, int n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, n), n = N·O·oH·oW, rounded up to whole blocks
    if (i >= n) return;
    int o = NHWC ? i % O : i / (oH * oW) % O;
    int pixel = NHWC ? i / O % (oH * oW) : i % (oH * oW);
    int image = i / (oH * oW) / O;
    int oh = pixel / oW, ow = pixel % oW;
    int outs = O / groups, group_channels = I / groups;               // per group
    int first = o / outs * group_channels, column = o % outs;
    int next_in = NHWC ? 1 : H * W, next_weight = kH * kW * outs;     // from a channel to the next

    float acc = bias ? (float)bias[o] : 0.0f;
    for (int kh = 0; kh < kH; ++kh) {
        int from_h = oh + pad_top - kh * dilation_h, ih = from_h / stride_h;
        if (from_h < 0 || from_h % stride_h || ih >= H) continue;
        for (int kw = 0; kw < kW; ++kw) {
            int from_w = ow + pad_left - kw * dilation_w, iw = from_w / stride_w;
            if (from_w < 0 || from_w % stride_w || iw >= W) continue;
            const scalar_t* in = x + (NHWC ? ((image * H + ih) * W + iw) * I + first : ((image * I + first) * H + ih) * W + iw);
            int tap = kh * kW + kw;
            const scalar_t* w = weight + first * next_weight + (NHWC ? tap * outs + column : column * kH * kW + tap);
            for (int c = 0; c < group_channels; ++c) acc += (float)w[c * next_weight] * (float)in[c * next_in];
        }
    }
    if (residual) acc += (float)residual[i];
    y[i] = (scalar_t)(acc < low ? low : acc > high ? high : acc);
}
