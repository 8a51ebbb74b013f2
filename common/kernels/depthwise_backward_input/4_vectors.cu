// depthwise_backward_input, rung 4 "vectors": NHWC, VECTOR channels a thread, 8 bytes an access; CHANNELS is a constant.
//
// Moves   grad + weight + out, with a VECTOR-th of rung 3's requests. The weights of a thread's channels lie side by side.
// Gains   in NHWC channels are neighbours in memory and have the same borders, so that every address, question and branch
//         serves VECTOR sums. 16 threads of a block read 128 bytes of one pixel, the others have the tiles beside it. With
//         CHANNELS known, the next column is a constant in the load instruction, and not an addition before it.
// Costs   VECTOR times the registers for sums and weights (16 bytes an access would leave half the threads), a compilation
//         for each number of channels, and narrower accesses where VECTOR does not divide it.
#include "vec.h"

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
    int slices = (CHANNELS / VECTOR + blockDim.x - 1) / blockDim.x;            // of blockDim.x vectors each
    unsigned tile = blockIdx.x / slices * blockDim.y + threadIdx.y;            // of all images
    unsigned plane = tile / (tiles_h * tiles_w);                               // an image
    int n = plane;
    int c = (blockIdx.x % slices * blockDim.x + threadIdx.x) * VECTOR;
    if (plane >= (unsigned)N || c >= CHANNELS) return;
    int tile_h = tile / tiles_w % tiles_h * (TH / SH), tile_w = tile % tiles_w * (TW / SW);  // in outputs
    constexpr int step = CHANNELS;  // from pixel to pixel
    const scalar_t* g = grad + ((n * oH + tile_h) * oW + tile_w) * step + c;  // the tile's first output
    scalar_t* dx = out + ((n * H + tile_h * SH) * W + tile_w * SW) * step + c;  // and its first pixel

    float k[KH * KW][VECTOR], acc[TH][TW][VECTOR] = {};  // k[tap][v] is number v·KH·KW + tap of the weights from c on
#pragma unroll
    for (int i = 0; i < KH * KW; ++i) {
        float value[VECTOR];
        load(value, weight + c * KH * KW + i * VECTOR);
#pragma unroll
        for (int v = 0; v < VECTOR; ++v) k[(i * VECTOR + v) % (KH * KW)][(i * VECTOR + v) / (KH * KW)] = value[v];
    }

#pragma unroll
    for (int r = first(KH, SH, DH, PH); r <= last(TH, SH, PH); ++r) {
#pragma unroll
        for (int s = first(KW, SW, DW, PW); s <= last(TW, SW, PW); ++s) {
            int oh = tile_h + r, ow = tile_w + s;
            bool inside = ((r >= 0 && r <= BOTTOM) || (oh >= 0 && oh < oH)) && ((s >= 0 && s <= RIGHT) || (ow >= 0 && ow < oW));
            float value[VECTOR] = {};
            if (inside) load(value, g + r * oW * step + s * step);
#pragma unroll
            for (int kh = 0; kh < KH; ++kh) {
#pragma unroll
                for (int kw = 0; kw < KW; ++kw) {
                    int h = r * SH - PH + kh * DH, w = s * SW - PW + kw * DW;  // the pixel of the tile that this tap read
                    if (h < 0 || h >= TH || w < 0 || w >= TW) continue;
#pragma unroll
                    for (int v = 0; v < VECTOR; ++v) acc[h][w][v] += k[kh * KW + kw][v] * value[v];
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
                if (ACCUMULATE) {
#pragma unroll
                    for (int v = 0; v < VECTOR; ++v) acc[h][w][v] += (float)o[v];
                }
                store(o, acc[h][w]);
            }
        }
    }
}
