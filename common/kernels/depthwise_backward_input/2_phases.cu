// depthwise_backward_input, rung 2 "phases": a thread SH × SW pixels, one of each phase, and the numbers as constants.
//
//   KH, KW, SH, SW, DH, DW, PH, PW: kernel, stride, dilation and padding (above, left) as -D options.
//
// Moves   grad + weight + out, as rung 1.
// Gains   which taps meet a pixel depends on its phase alone, (h mod SH, w mod SW). In a tile of SH × SW pixels the phase
//         of each is known when the kernel is compiled, so a tap that cannot hit leaves no instruction behind: 9 taps for
//         the 4 pixels of a tile with stride 2, where rung 1 tries 36. No divisions, and no thread waits for another's taps.
// Costs   a compilation for each kernel, stride, dilation and padding. With stride 2 a warp's loads and stores of NCHW
//         arrays skip every other pixel. A gradient is loaded again for each pixel that it reaches.
#include <cuda_fp16.h>

extern "C" __global__ void depthwise_backward_input(
    const scalar_t* __restrict__ grad, const scalar_t* __restrict__ weight, scalar_t* __restrict__ out, int N, int C, int H, int W, int oH, int oW,
    int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w) {
    int tiles_h = (H + SH - 1) / SH, tiles_w = (W + SW - 1) / SW;
    int slices = NHWC ? (C + blockDim.x - 1) / blockDim.x : 1;                 // of blockDim.x channels each
    unsigned tile = blockIdx.x / slices * blockDim.y + threadIdx.y;            // NCHW: of all images and channels
    unsigned plane = tile / (tiles_h * tiles_w);                               // NHWC: an image
    int n = NHWC ? plane : plane / C;
    int c = NHWC ? blockIdx.x % slices * blockDim.x + threadIdx.x : plane % C;
    if (plane >= (unsigned)(NHWC ? N : N * C) || c >= C) return;
    int tile_h = tile / tiles_w % tiles_h, tile_w = tile % tiles_w;
    const scalar_t* g = grad + (NHWC ? n * C * oH * oW + c : (n * C + c) * oH * oW);  // of this image and channel
    scalar_t* dx = out + (NHWC ? n * C * H * W + c : (n * C + c) * H * W);
    int step = NHWC ? C : 1;                                                          // from pixel to pixel

#pragma unroll
    for (int r = 0; r < SH; ++r) {
#pragma unroll
        for (int s = 0; s < SW; ++s) {
            int h = tile_h * SH + r, w = tile_w * SW + s;
            if (h >= H || w >= W) continue;
            acc_t acc = 0;
#pragma unroll
            for (int kh = 0; kh < KH; ++kh) {
                int up = r + PH - kh * DH, oh = tile_h + up / SH;  // up is a constant, and so is up % SH
                if (up % SH != 0 || oh < 0 || oh >= oH) continue;
#pragma unroll
                for (int kw = 0; kw < KW; ++kw) {
                    int left = s + PW - kw * DW, ow = tile_w + left / SW;
                    if (left % SW != 0 || ow < 0 || ow >= oW) continue;
                    acc += (acc_t)weight[(c * KH + kh) * KW + kw] * (acc_t)g[(oh * oW + ow) * step];
                }
            }
            scalar_t* o = dx + (h * W + w) * step;
            *o = (scalar_t)(ACCUMULATE ? (acc_t)*o + acc : acc);
        }
    }
}
