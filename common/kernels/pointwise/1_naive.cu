// pointwise, rung 1 "naive": a 1×1 convolution with bias, residual and clamp; one thread per output, neighbours side by side.
//
//   y[n, o, p] = clamp(bias[o] + residual[n, o, p] + sum over c of weight[o, c] · x[n, c, p], low, high), p = 0 … pixels - 1
//   x (N, C, pixels), y and residual (N, O, pixels); with NHWC=1 (N, pixels, C) and (N, pixels, O). weight (O, C), bias (O).
//   bias and residual may be null.
//
// Moves   at least x + weight + residual + y, once each: (C + O)·4 bytes per pixel in fp32, (C + 2·O)·4 with a residual.
//         The threads ask for two elements per multiply-add, N·pixels·O·C times; caches serve most of them.
// Gains   bias, residual and clamp need no pass of their own over y: three separate kernels would read y three times and
//         write it three times more. There is no window, so the index arithmetic of conv2d's loop over taps is gone.
// Costs   two loads per multiply-add. NCHW: a warp's 32 pixels are adjacent, 128 bytes of a channel, and share the weight.
//         NHWC: a warp's 32 outputs share the pixel, but read 32 rows of weight: 32 sectors for 128 bytes.
#include <cuda_fp16.h>

extern "C" __global__ void pointwise(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
                                     const scalar_t* __restrict__ residual, scalar_t* __restrict__ y,
                                     int N, int C, int O, int pixels, float low, float high) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, N·O·pixels), rounded up to whole blocks
    if (i >= N * O * pixels) return;
#if NHWC
    const int o = i % O, next = 1;
    x += i / O * C;
#else
    const int o = i / pixels % O, next = pixels;
    x += i / pixels / O * C * pixels + i % pixels;
#endif
    weight += o * C;

    float acc = bias ? (float)bias[o] : 0.0f;
    for (int c = 0; c < C; ++c) acc += (float)weight[c] * (float)x[c * next];
    if (residual) acc += (float)residual[i];
    acc = acc < low ? low : acc;
    y[i] = (scalar_t)(acc > high ? high : acc);
}
