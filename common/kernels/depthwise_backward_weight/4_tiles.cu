// depthwise_backward_weight, rung 4 "tiles": all taps of a channel in a thread's registers; grad and x are read once.
//
//   KH, KW, SH, SW, DH, DW, PH, PW: kernel, stride, dilation and padding (above, left) as -D options. BOTTOM, RIGHT: the
//   last row and column of a tile's patch of x that exist for every tile; -1 if tiles overhang. STAGE: of two launches.
//
// Moves   grad + x, and KH·KW sums a block to partials and back. Of a tile of TH × TW elements of grad and the patch of x
//         that it reads, each is loaded once: (TH + KH - 1)·(TW + KW - 1) of x (stride 1), 27 for 7 × 1 with 3 × 3 taps.
// Gains   63 multiply-adds for 34 loads there, instead of two loads for one. A block walks over its part of the tiles with
//         its sums in registers; channels times parts are enough blocks for any card, however few channels there are.
//         Sums meet three times, in shuffles, in shared memory and in partials, and always in the same order.
// Costs   a compilation for each kernel, stride, dilation and padding, and a second launch for the parts. What overhangs
//         counts as 0, so that a NaN may reach more taps of its channel than those it belongs to.
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) depthwise_backward_weight(
    const scalar_t* __restrict__ grad, const scalar_t* __restrict__ x, acc_t* partials, scalar_t* __restrict__ out, int N, int C, int H, int W,
    int oH, int oW, int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w, int parts) {
    constexpr int TAPS = KH * KW, WARPS = THREADS / 32;
    if (STAGE == 2) {  // GROUP threads add up the parts of an element
        unsigned i = (blockIdx.x * THREADS + threadIdx.x) / GROUP;  // range [0, C·TAPS), rounded up to whole blocks
        acc_t total = 0;
        for (int p = threadIdx.x % GROUP; i < (unsigned)C * TAPS && p < parts; p += GROUP) total += partials[i * parts + p];
        for (int away = GROUP / 2; away > 0; away /= 2) total += __shfl_xor_sync(0xffffffffu, total, away);
        if (threadIdx.x % GROUP == 0 && i < (unsigned)C * TAPS) out[i] = (scalar_t)(ACCUMULATE ? (acc_t)out[i] + total : total);
        return;
    }
    __shared__ acc_t sums[WARPS][TAPS][LANES];
    int slices = (C + LANES - 1) / LANES;
    int slice = blockIdx.x % slices, part = blockIdx.x / slices;
    int lane = threadIdx.x % LANES, c = slice * LANES + lane;  // LANES threads side by side, a power of two: channels of a pixel
    int tiles_h = (oH + TH - 1) / TH, tiles_w = (oW + TW - 1) / TW, step = NHWC ? C : 1;  // step: from pixel to pixel

    acc_t sum[TAPS] = {};
    unsigned tiles = c < C ? N * tiles_h * tiles_w : 0, at_once = THREADS / LANES;
    for (unsigned tile = part * at_once + threadIdx.x / LANES; tile < tiles; tile += parts * at_once) {
        int n = tile / (tiles_h * tiles_w), first_h = tile / tiles_w % tiles_h * TH, first_w = tile % tiles_w * TW;
        const scalar_t* g = grad + (NHWC ? n * C * oH * oW + c : (n * C + c) * oH * oW) + (first_h * oW + first_w) * step;  // the first output
        const scalar_t* in = x + (NHWC ? n * C * H * W + c : (n * C + c) * H * W) + ((first_h * SH - PH) * W + first_w * SW - PW) * step;

        acc_t dy[TH][TW] = {};
#pragma unroll
        for (int r = 0; r < (TH - 1) * SH + (KH - 1) * DH + 1; ++r) {  // a row of the patch of x that the tile reads
#pragma unroll
            for (int b = 0; b < TW && r % SH == 0 && r / SH < TH; ++b) {
                int a = r / SH;  // the row of grad whose tap 0 it is
                bool inside = (BOTTOM >= 0 || first_h + a < oH) && (RIGHT >= 0 || first_w + b < oW);
                if (inside) dy[a][b] = (acc_t)g[a * oW * step + b * step];
            }
#pragma unroll
            for (int s = 0; s < (TW - 1) * SW + (KW - 1) * DW + 1; ++s) {
                int ih = first_h * SH - PH + r, iw = first_w * SW - PW + s;
                bool inside = ((r >= PH && r <= BOTTOM) || (ih >= 0 && ih < H)) && ((s >= PW && s <= RIGHT) || (iw >= 0 && iw < W));
                acc_t value = 0;
                if (inside) value = (acc_t)in[r * W * step + s * step];
#pragma unroll
                for (int kh = 0; kh < KH; ++kh) {
#pragma unroll
                    for (int kw = 0; kw < KW; ++kw) {
                        int up = r - kh * DH, left = s - kw * DW;  // of the output that reads this pixel with this tap, times stride
                        if (up % SH != 0 || up < 0 || up / SH >= TH || left % SW != 0 || left < 0 || left / SW >= TW) continue;
                        sum[kh * KW + kw] += dy[up / SH][left / SW] * value;
                    }
                }
            }
        }
    }

#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap) {
        for (int away = 16; away >= LANES; away /= 2) sum[tap] += __shfl_xor_sync(0xffffffffu, sum[tap], away);  // of one channel
        if (threadIdx.x % 32 < LANES) sums[threadIdx.x / 32][tap][lane] = sum[tap];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < TAPS * LANES && c < C; i += THREADS) {  // i % LANES stays the thread's lane
        acc_t total = 0;
        for (int warp = 0; warp < WARPS; ++warp) total += sums[warp][i / LANES][lane];
        int o = c * TAPS + i / LANES;
        if (parts > 1) partials[o * parts + part] = total;
        else out[o] = (scalar_t)(ACCUMULATE ? (acc_t)out[o] + total : total);
    }
}
