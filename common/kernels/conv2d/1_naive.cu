// conv2d, rung 1 "naive": any convolution, directly from its definition, one thread an output element.
//
//   y[n, o, oh, ow] = clamp(bias[o] + residual[n, o, oh, ow]
//                           + sum over c, kh, kw of weight[o, c, kh, kw] · x[n, g·C/G + c, ih, iw], low, high)
//   with ih = oh·stride - pad + kh·dilation (iw alike), g the group of o; terms outside the image are 0.
//   x (N, C, H, W), weight (O, C/G, kH, kW), bias (O) or null, residual and y (N, O, oH, oW) or null; all NCHW.
//
// Moves   at the least x + weight + residual + y. Asked for are two elements a multiply-add; caches serve most of them.
// Gains   every stride, padding, dilation and grouping; bias, residual and activation cost no pass of their own.
//         The taps are the outer loops, so whether a tap lies in the image is asked once for all channels.
// Costs   two loads for each multiply-add, none of them shared between threads.
#include <cuda_fp16.h>

extern "C" __global__ void conv2d(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
                                  const scalar_t* __restrict__ residual, scalar_t* __restrict__ y,
                                  int C, int H, int W, int O, int oH, int oW, int kH, int kW, int stride_h, int stride_w,
                                  int pad_top, int pad_left, int dilation_h, int dilation_w, int groups,
                                  float low, float high) {
    int pixel = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, oH·oW), rounded up to whole blocks
    int o = blockIdx.y;                                 // range [0, O)
    int n = blockIdx.z;                                 // range [0, N)
    if (pixel >= oH * oW) return;
    int oh = pixel / oW, ow = pixel % oW;
    int group_channels = C / groups;
    int first_channel = o / (O / groups) * group_channels;

    float acc = bias ? (float)bias[o] : 0.0f;
    for (int kh = 0; kh < kH; ++kh) {
        int ih = oh * stride_h - pad_top + kh * dilation_h;
        if (ih < 0 || ih >= H) continue;
        for (int kw = 0; kw < kW; ++kw) {
            int iw = ow * stride_w - pad_left + kw * dilation_w;
            if (iw < 0 || iw >= W) continue;
            const scalar_t* in = x + ((n * C + first_channel) * H + ih) * W + iw;  // a channel further: + H·W
            const scalar_t* w = weight + (o * group_channels * kH + kh) * kW + kw;  // a channel further: + kH·kW
            for (int c = 0; c < group_channels; ++c) acc += (float)w[c * kH * kW] * (float)in[c * H * W];
        }
    }
    int i = (n * O + o) * oH * oW + pixel;
    if (residual) acc += (float)residual[i];
    y[i] = (scalar_t)(acc < low ? low : acc > high ? high : acc);
}
