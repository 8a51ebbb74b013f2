// depthwise_backward_input, rung 3 "tiles": a tile of TH × TW pixels in registers; each gradient near it is loaded once.
//
//   The loops are turned round: not pixel by pixel, which outputs reach it, but output by output, which pixels of the tile
//   it reaches. That is a scatter, into the thread's own registers, so nobody else adds there.
//   BOTTOM, RIGHT: the last row and column of outputs that exist for every tile; -1 if tiles overhang the image.
//
// Moves   grad + weight + out. Asked for are (TH + KH - 1)·(TW + KW - 1) / (TH·TW) gradients a pixel (stride 1): 9 for one
//         pixel, 3.4 for 14 × 1, 2.6 for 7 × 2; those of neighbouring tiles are in the first-level cache.
// Gains   a gradient from memory serves all taps: KH·KW multiply-adds a load inside the tile. No question is asked where
//         the answer is known: only the rim of a tile can lie outside. A row goes out as soon as nothing more reaches it,
//         so that the registers of a few rows do for a tile of many, and the weights are loaded once for all of them.
// Costs   the registers, and pixels computed for nothing where a tile overhangs. A gradient that is not there counts as
//         0, so that 0 times a weight that is NaN or infinite is NaN, as it is with the forward pass's padding.
#include <cuda_fp16.h>

// the outputs that reach a tile, counted from the one that tap 0 would have at its first pixel without padding
__device__ constexpr int first(int kernel, int stride, int dilation, int pad) {  // (pad - (kernel - 1)·dilation) / stride, rounded up
    return (kernel - 1) * dilation >= pad ? -(((kernel - 1) * dilation - pad) / stride) : (pad - (kernel - 1) * dilation + stride - 1) / stride;
}
__device__ constexpr int last(int tile, int stride, int pad) { return (tile - 1 + pad) / stride; }

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) depthwise_backward_input(
    const scalar_t* __restrict__ grad, const scalar_t* __restrict__ weight, scalar_t* __restrict__ out, int N, int C, int H, int W, int oH, int oW,
    int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w) {
    static_assert(TH % SH == 0 && TW % SW == 0, "a tile begins with the first phase");
    int tiles_h = (H + TH - 1) / TH, tiles_w = (W + TW - 1) / TW;
    int slices = NHWC ? (C + blockDim.x - 1) / blockDim.x : 1;                 // of blockDim.x channels each
    unsigned tile = blockIdx.x / slices * blockDim.y + threadIdx.y;            // NCHW: of all images and channels
    unsigned plane = tile / (tiles_h * tiles_w);                               // NHWC: an image
    int n = NHWC ? plane : plane / C;
    int c = NHWC ? blockIdx.x % slices * blockDim.x + threadIdx.x : plane % C;
    if (plane >= (unsigned)(NHWC ? N : N * C) || c >= C) return;
    int tile_h = tile / tiles_w % tiles_h * (TH / SH), tile_w = tile % tiles_w * (TW / SW);  // in outputs
    int step = NHWC ? C : 1;  // from pixel to pixel
    const scalar_t* g = grad + (NHWC ? n * C * oH * oW + c : (n * C + c) * oH * oW) + (tile_h * oW + tile_w) * step;  // the first output
    scalar_t* dx = out + (NHWC ? n * C * H * W + c : (n * C + c) * H * W) + (tile_h * SH * W + tile_w * SW) * step;   // the first pixel

    acc_t k[KH * KW], acc[TH][TW] = {};
#pragma unroll
    for (int tap = 0; tap < KH * KW; ++tap) k[tap] = (acc_t)weight[c * KH * KW + tap];

#pragma unroll
    for (int r = first(KH, SH, DH, PH); r <= last(TH, SH, PH); ++r) {
#pragma unroll
        for (int s = first(KW, SW, DW, PW); s <= last(TW, SW, PW); ++s) {
            int oh = tile_h + r, ow = tile_w + s;
            bool inside = ((r >= 0 && r <= BOTTOM) || (oh >= 0 && oh < oH)) && ((s >= 0 && s <= RIGHT) || (ow >= 0 && ow < oW));
            acc_t value = 0;
            if (inside) value = (acc_t)g[r * oW * step + s * step];
#pragma unroll
            for (int kh = 0; kh < KH; ++kh) {
#pragma unroll
                for (int kw = 0; kw < KW; ++kw) {
                    int h = r * SH - PH + kh * DH, w = s * SW - PW + kw * DW;  // the pixel of the tile that this tap read
                    if (h >= 0 && h < TH && w >= 0 && w < TW) acc[h][w] += k[kh * KW + kw] * value;
                }
            }
        }
#pragma unroll
        for (int h = 0; h < TH; ++h) {
            if ((h + PH) / SH != r || (BOTTOM < 0 && tile_h * SH + h >= H)) continue;  // no later output reaches row h
#pragma unroll
            for (int w = 0; w < TW; ++w) {
                if (RIGHT < 0 && tile_w * SW + w >= W) continue;
                scalar_t* o = dx + h * W * step + w * step;
                *o = (scalar_t)(ACCUMULATE ? (acc_t)*o + acc[h][w] : acc[h][w]);
            }
        }
    }
}
