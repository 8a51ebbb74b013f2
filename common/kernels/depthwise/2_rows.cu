// depthwise, rung 2 "rows": a thread walks down a column of TH outputs and loads each row of the input once, not KH times.
//
// Moves   the same bytes. Loads per output for a 3×3 filter and TH = 8: at stride 1 10 rows of 3 numbers for 8 outputs, 3.75
//         instead of 9; at stride 2 17 rows, 6.4. The KH·KW weights are loaded once per column and stay in registers.
// Gains   KH, KW, strides and dilations are compile-time constants (those of the launch), so loops unroll. The sums of a
//         column are TH independent chains, and all of the column's loads can be in flight at once.
// Costs   one compilation per kernel size, stride and dilation. NCHW only. TH times fewer threads, too few at batch 1.
//         Neighbouring columns are not shared: each thread still loads the KW numbers of a row itself.
#include <cuda_fp16.h>

enum { ROWS = (TH - 1) * STRIDE_H + (KH - 1) * DILATION_H + 1 };  // of the input, for TH rows of the output

extern "C" __global__ void depthwise(
    const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
    const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, int N, int C, int H, int W, int oH, int oW,
    int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w,
    acc_t low, acc_t high) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, N·C·oW), rounded up to whole blocks
    if (column >= N * C * oW) return;
    int plane = column / oW, ow = column % oW, c = plane % C;
    int iw = ow * STRIDE_W - pad_left;

    acc_t w[KH * KW];
#pragma unroll
    for (int k = 0; k < KH * KW; ++k) w[k] = (acc_t)weight[c * KH * KW + k];

    for (int oh = blockIdx.y * TH; oh < oH; oh += gridDim.y * TH) {
        int ih = oh * STRIDE_H - pad_top;
        acc_t acc[TH];
#pragma unroll
        for (int t = 0; t < TH; ++t) acc[t] = bias ? (acc_t)bias[c] : (acc_t)0;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            acc_t in[KW];
#pragma unroll
            for (int kw = 0; kw < KW; ++kw) {
                bool inside = ih + r >= 0 && ih + r < H && iw + kw * DILATION_W >= 0 && iw + kw * DILATION_W < W;
                in[kw] = inside ? (acc_t)x[(plane * H + ih + r) * W + iw + kw * DILATION_W] : (acc_t)0;
            }
#pragma unroll
            for (int t = 0; t < TH; ++t)
#pragma unroll
                for (int kh = 0; kh < KH; ++kh)
                    if (t * STRIDE_H + kh * DILATION_H == r)  // row r is the kh-th of output t: known when compiled
#pragma unroll
                        for (int kw = 0; kw < KW; ++kw) acc[t] += w[kh * KW + kw] * in[kw];
        }
#pragma unroll
        for (int t = 0; t < TH; ++t) {
            if (oh + t >= oH) break;
            int i = (plane * oH + oh + t) * oW + ow;
            if (residual) acc[t] += (acc_t)residual[i];
            y[i] = (scalar_t)(acc[t] < low ? low : acc[t] > high ? high : acc[t]);
        }
    }
}
