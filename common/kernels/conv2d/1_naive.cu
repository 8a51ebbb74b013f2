// conv2d, rung 1 "naive": any convolution, directly from its definition, one thread per output element.
//
//   y[n, o, oh, ow] = clamp(bias[o] + residual[n, o, oh, ow]
//                           + sum over c, kh, kw of weight[o, c, kh, kw] · x[n, g·C/G + c, ih, iw], low, high)
//   with ih = oh·stride - pad + kh·dilation (iw alike), g the group of o; terms outside the image are 0.
//   x (N, C, H, W), weight (O, C/G, kH, kW), bias (O) or null, residual (N, O, oH, oW) or null, y (N, O, oH, oW).
//   In memory all four are NCHW, or with NHWC=1 all four NHWC: channels last, weight as (O, kH, kW, C/G).
//
// Moves   at the least x + weight + residual + y. Asked for are two elements per multiply-add; caches serve most of them.
// Gains   every stride, padding, dilation and grouping; bias, residual and activation cost no pass of their own.
//         The taps are the outer loops, so whether a tap lies in the image is tested once for all channels.
// Costs   two loads per multiply-add, none of them shared between threads. NHWC: the weights of 32 neighbouring outputs lie
//         kH·kW·C/G apart; if that is a multiple of 32 words, all lie in one bank of L1, and a load takes 32 clocks.
#include <cuda_fp16.h>

#ifndef NHWC
#define NHWC 0
#endif

extern "C" __global__ void conv2d(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
                                  const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, float* __restrict__ partial,
                                  int N, int C, int H, int W, int O, int oH, int oW, int kH, int kW, int stride_h, int stride_w,
                                  int pad_top, int pad_left, int dilation_h, int dilation_w, int groups,
                                  float low, float high) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, N·O·oH·oW), rounded up to whole blocks
    if (i >= (unsigned)(N * O) * (oH * oW)) return;
    int o = NHWC ? i % O : i / (oH * oW) % O;
    int pixel = NHWC ? i / O % (oH * oW) : i % (oH * oW);
    int n = i / (oH * oW) / O;
    int oh = pixel / oW, ow = pixel % oW;
    int group_channels = C / groups;
    int first_channel = o / (O / groups) * group_channels;
    int next_in = NHWC ? 1 : H * W, next_weight = NHWC ? 1 : kH * kW;  // from a channel to the next

    float acc = bias ? (float)bias[o] : 0.0f;
    for (int kh = 0; kh < kH; ++kh) {
        int ih = oh * stride_h - pad_top + kh * dilation_h;
        if (ih < 0 || ih >= H) continue;
        for (int kw = 0; kw < kW; ++kw) {
            int iw = ow * stride_w - pad_left + kw * dilation_w;
            if (iw < 0 || iw >= W) continue;
            const scalar_t* in = x + (NHWC ? ((n * H + ih) * W + iw) * C + first_channel : ((n * C + first_channel) * H + ih) * W + iw);
            const scalar_t* w = weight + (NHWC ? ((o * kH + kh) * kW + kw) * group_channels : (o * group_channels * kH + kh) * kW + kw);
            for (int c = 0; c < group_channels; ++c) acc += (float)w[c * next_weight] * (float)in[c * next_in];
        }
    }
    if (residual) acc += (float)residual[i];
    y[i] = (scalar_t)(acc < low ? low : acc > high ? high : acc);
}
