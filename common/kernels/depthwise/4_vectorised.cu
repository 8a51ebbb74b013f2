// depthwise, rung 4 "vectorised": NHWC, where neighbours are channels; a thread computes V channels of one output pixel.
//
// Moves   the same bytes, V = 4 elements per load: 16 bytes in fp32, 8 in fp16. For a 3×3 filter 9 loads of x and 9 of weight
//         serve V outputs, 4.5 per output. A warp loads 512 (fp16: 256) adjacent bytes at any stride and any row length.
// Gains   no halo in shared memory and no barrier: the nine neighbours of a pixel are nine other vectors, which L1 serves
//         to every thread that needs them. One address and one bounds check serve V channels.
// Costs   C must be a multiple of V; otherwise the launcher takes V = 1. Each pixel is still loaded nine times, and the
//         weights once per output.
#include <cuda_fp16.h>

#include "vec.h"

enum { TAPS = KH * KW };

extern "C" __global__ void depthwise(
    const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
    const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, int N, int C, int H, int W, int oH, int oW,
    int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w,
    float low, float high) {
    int vector = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, N·oH·oW·C / V), rounded up to whole blocks
    if (vector >= N * oH * oW * (C / V)) return;
    int c = vector % (C / V) * V, pixel = vector / (C / V);
    int ow = pixel % oW, oh = pixel / oW % oH, n = pixel / oW / oH;
    int ih = oh * STRIDE_H - pad_top, iw = ow * STRIDE_W - pad_left;

    float w[TAPS * V];
#pragma unroll
    for (int k = 0; k < TAPS; ++k) {  // of channel c + e the tap k: w[e·TAPS + k], as in memory
        float part[V];
        load(part, weight + c * TAPS + k * V);
#pragma unroll
        for (int e = 0; e < V; ++e) w[k * V + e] = part[e];
    }
    float acc[V] = {};
    if (bias) load(acc, bias + c);
#pragma unroll
    for (int kh = 0; kh < KH; ++kh)
#pragma unroll
        for (int kw = 0; kw < KW; ++kw) {
            int h = ih + kh * DILATION_H, k = iw + kw * DILATION_W;
            float in[V] = {};
            if (h >= 0 && h < H && k >= 0 && k < W) load(in, x + ((n * H + h) * W + k) * C + c);
#pragma unroll
            for (int e = 0; e < V; ++e) acc[e] += w[e * TAPS + kh * KW + kw] * in[e];
        }
    int i = pixel * C + c;
    if (residual) {
        float in[V];
        load(in, residual + i);
#pragma unroll
        for (int e = 0; e < V; ++e) acc[e] += in[e];
    }
#pragma unroll
    for (int e = 0; e < V; ++e) acc[e] = acc[e] < low ? low : acc[e] > high ? high : acc[e];
    store(y + i, acc);
}
