// depthwise, rung 1 "naive": each channel has its own filter; one thread per output element, straight from the definition.
//
//   y[n, c, oh, ow] = clamp(bias[c] + residual[n, c, oh, ow]
//                           + sum over kh, kw of weight[c, kh, kw] · x[n, c, ih, iw], low, high)
//   with ih = oh·stride_h - pad_top + kh·dilation_h (iw alike); terms outside the image are 0.
//   x (N, C, H, W), weight (C, 1, kH, kW), bias (C) or null, residual and y (N, C, oH, oW), residual or null.
//   x, residual and y lie in memory as NCHW, or with NHWC = 1 as NHWC; weight is C-contiguous in both.
//
// Moves   at least x + weight + bias + residual + y, once. The threads ask for two elements per multiply-add: 18 loads per
//         output for a 3×3 filter. In NCHW at stride 1 a warp loads 128 adjacent bytes, and caches serve 8 loads of 9.
// Gains   any kernel size, stride, padding, dilation, dtype and layout; compiled once per dtype and layout.
// Costs   per output with its 9 multiply-adds: 18 loads, 4 divisions that find its coordinates, a bounds check per tap.
#include <cuda_fp16.h>

__device__ __forceinline__ int at(int n, int c, int h, int w, int C, int H, int W) {
    return NHWC ? ((n * H + h) * W + w) * C + c : ((n * C + c) * H + h) * W + w;
}

extern "C" __global__ void depthwise(
    const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
    const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, int N, int C, int H, int W, int oH, int oW,
    int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w,
    acc_t low, acc_t high) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, N·C·oH·oW), rounded up to whole blocks
    if (i >= N * C * oH * oW) return;
    int c = NHWC ? i % C : i / oW / oH % C;  // neighbouring threads write neighbouring elements
    int ow = NHWC ? i / C % oW : i % oW;
    int oh = (NHWC ? i / C / oW : i / oW) % oH;
    int n = i / C / oH / oW;

    acc_t acc = bias ? (acc_t)bias[c] : (acc_t)0;
    for (int kh = 0; kh < kH; ++kh) {
        int ih = oh * stride_h - pad_top + kh * dilation_h;
        if (ih < 0 || ih >= H) continue;
        for (int kw = 0; kw < kW; ++kw) {
            int iw = ow * stride_w - pad_left + kw * dilation_w;
            if (iw < 0 || iw >= W) continue;
            acc += (acc_t)weight[(c * kH + kh) * kW + kw] * (acc_t)x[at(n, c, ih, iw, C, H, W)];
        }
    }
    if (residual) acc += (acc_t)residual[i];
    y[i] = (scalar_t)(acc < low ? low : acc > high ? high : acc);
}
