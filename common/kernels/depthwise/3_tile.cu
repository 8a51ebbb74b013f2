// depthwise, rung 3 "tile": a block copies a tile of the input with its halo to shared memory, zeros for the padding.
//
// Moves   (TILE_H·s + 3 - s)(TILE_W·s + 3 - s) elements for TILE_H·TILE_W outputs of a 3×3 filter at stride s. With 8×32
//         outputs that is 1.33 elements per output at stride 1 and 4.32 at stride 2, against 1 and 4 without a halo.
//         Each is loaded from global memory once; the nine loads per output come from shared memory.
// Gains   neighbours share loads in both directions. A warp's global loads are adjacent at any stride. What lies outside
//         the image is a zero in the tile, so the loop over taps needs no bounds check. A block takes PLANES small images.
// Costs   every number goes to shared memory and is read back nine times: 9 loads for 9 multiply-adds, more than rung 2
//         has. No output is computed before the whole tile has arrived. NCHW only. Rung 2's repeated loads were served by
//         L1 already, so what this rung adds (loads from shared memory) may cost more than what it saves.
#include <cuda_fp16.h>

enum {
    IN_H = (TILE_H - 1) * STRIDE_H + (KH - 1) * DILATION_H + 1,
    IN_W = (TILE_W - 1) * STRIDE_W + (KW - 1) * DILATION_W + 1,
};

extern "C" __global__ void depthwise(
    const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
    const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, int N, int C, int H, int W, int oH, int oW,
    int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w,
    acc_t low, acc_t high) {
    __shared__ scalar_t tile[PLANES][IN_H][IN_W];
    int tiles_w = (oW + TILE_W - 1) / TILE_W, tiles = (oH + TILE_H - 1) / TILE_H * tiles_w;
    int first_plane = blockIdx.x / tiles * PLANES, first_oh = blockIdx.x % tiles / tiles_w * TILE_H;
    int first_ow = blockIdx.x % tiles_w * TILE_W;
    int first_ih = first_oh * STRIDE_H - pad_top, first_iw = first_ow * STRIDE_W - pad_left;

    for (int i = threadIdx.x; i < PLANES * IN_H * IN_W; i += blockDim.x) {
        int p = i / (IN_H * IN_W), r = i / IN_W % IN_H, k = i % IN_W;  // plane, row and column in the tile
        int plane = first_plane + p, ih = first_ih + r, iw = first_iw + k;
        bool inside = plane < N * C && ih >= 0 && ih < H && iw >= 0 && iw < W;
        tile[p][r][k] = inside ? x[(plane * H + ih) * W + iw] : (scalar_t)0.0f;
    }
    __syncthreads();

    for (int i = threadIdx.x; i < PLANES * TILE_H * TILE_W; i += blockDim.x) {
        int p = i / (TILE_H * TILE_W), r = i / TILE_W % TILE_H, k = i % TILE_W;
        int plane = first_plane + p, c = plane % C, oh = first_oh + r, ow = first_ow + k;
        if (plane >= N * C || oh >= oH || ow >= oW) continue;
        acc_t acc = bias ? (acc_t)bias[c] : (acc_t)0;
#pragma unroll
        for (int kh = 0; kh < KH; ++kh)
#pragma unroll
            for (int kw = 0; kw < KW; ++kw)
                acc += (acc_t)weight[(c * KH + kh) * KW + kw]
                       * (acc_t)tile[p][r * STRIDE_H + kh * DILATION_H][k * STRIDE_W + kw * DILATION_W];
        int o = (plane * oH + oh) * oW + ow;
        if (residual) acc += (acc_t)residual[o];
        y[o] = (scalar_t)(acc < low ? low : acc > high ? high : acc);
    }
}
