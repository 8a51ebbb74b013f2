// depthwise_backward_weight, rung 5 "vectors": NHWC, VECTOR channels a thread; CHANNELS is a constant.
//
// Moves   grad + x with a VECTOR-th of rung 4's requests, and VECTOR·KH·KW sums a thread to shared memory.
// Gains   in NHWC channels are neighbours in memory and have the same borders, so that every address, question and branch
//         serves VECTOR channels, and no thread shares a channel with its neighbour. With CHANNELS known, the next column
//         is a constant in the load instruction, and not an addition before it.
// Costs   VECTOR·KH·KW registers for sums: fewer threads, which must have more loads in flight each; a compilation for each
//         number of channels.
#include "vec.h"

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) depthwise_backward_weight(
    const scalar_t* __restrict__ grad, const scalar_t* __restrict__ x, float* partials, scalar_t* __restrict__ out, int N, int C, int H, int W,
    int oH, int oW, int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w, int parts) {
    constexpr int TAPS = KH * KW, WARPS = THREADS / 32;
    if (STAGE == 2) {  // GROUP threads add up the parts of an element
        unsigned i = (blockIdx.x * THREADS + threadIdx.x) / GROUP;  // range [0, CHANNELS·TAPS), rounded up to whole blocks
        float total = 0;
        for (int p = threadIdx.x % GROUP; i < (unsigned)CHANNELS * TAPS && p < parts; p += GROUP) total += partials[i * parts + p];
        for (int away = GROUP / 2; away > 0; away /= 2) total += __shfl_xor_sync(0xffffffffu, total, away);
        if (threadIdx.x % GROUP == 0 && i < (unsigned)CHANNELS * TAPS) out[i] = (scalar_t)(ACCUMULATE ? (float)out[i] + total : total);
        return;
    }
    __shared__ float sums[WARPS][TAPS * VECTOR][LANES];
    int slices = (CHANNELS / VECTOR + LANES - 1) / LANES;
    int slice = blockIdx.x % slices, part = blockIdx.x / slices;
    int lane = threadIdx.x % LANES, c = (slice * LANES + lane) * VECTOR;  // LANES threads side by side, a power of two
    int tiles_h = (oH + TH - 1) / TH, tiles_w = (oW + TW - 1) / TW;
    constexpr int step = CHANNELS;  // from pixel to pixel

    float sum[TAPS * VECTOR] = {};
    unsigned tiles = c < CHANNELS ? N * tiles_h * tiles_w : 0, at_once = THREADS / LANES;
    for (unsigned tile = part * at_once + threadIdx.x / LANES; tile < tiles; tile += parts * at_once) {
        int n = tile / (tiles_h * tiles_w), first_h = tile / tiles_w % tiles_h * TH, first_w = tile % tiles_w * TW;
        const scalar_t* g = grad + ((n * oH + first_h) * oW + first_w) * step + c;  // the tile's first output
        const scalar_t* in = x + ((n * H + first_h * SH - PH) * W + first_w * SW - PW) * step + c;  // what its tap 0 reads

        float dy[TH][TW][VECTOR] = {};
#pragma unroll
        for (int r = 0; r < (TH - 1) * SH + (KH - 1) * DH + 1; ++r) {  // a row of the patch of x that the tile reads
#pragma unroll
            for (int b = 0; b < TW && r % SH == 0 && r / SH < TH; ++b) {
                int a = r / SH;  // the row of grad whose tap 0 it is
                bool inside = (BOTTOM >= 0 || first_h + a < oH) && (RIGHT >= 0 || first_w + b < oW);
                if (inside) load(dy[a][b], g + a * oW * step + b * step);
            }
#pragma unroll
            for (int s = 0; s < (TW - 1) * SW + (KW - 1) * DW + 1; ++s) {
                int ih = first_h * SH - PH + r, iw = first_w * SW - PW + s;
                bool inside = ((r >= PH && r <= BOTTOM) || (ih >= 0 && ih < H)) && ((s >= PW && s <= RIGHT) || (iw >= 0 && iw < W));
                float value[VECTOR] = {};
                if (inside) load(value, in + r * W * step + s * step);
#pragma unroll
                for (int kh = 0; kh < KH; ++kh) {
#pragma unroll
                    for (int kw = 0; kw < KW; ++kw) {
                        int up = r - kh * DH, left = s - kw * DW;  // of the output that reads this pixel with this tap, times stride
                        if (up % SH != 0 || up < 0 || up / SH >= TH || left % SW != 0 || left < 0 || left / SW >= TW) continue;
#pragma unroll
                        for (int v = 0; v < VECTOR; ++v) sum[(kh * KW + kw) * VECTOR + v] += dy[up / SH][left / SW][v] * value[v];
                    }
                }
            }
        }
    }

#pragma unroll
    for (int i = 0; i < TAPS * VECTOR; ++i) {
        for (int away = 16; away >= LANES; away /= 2) sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], away);  // of one channel
        if (threadIdx.x % 32 < LANES) sums[threadIdx.x / 32][i][lane] = sum[i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < TAPS * VECTOR * LANES && c < CHANNELS; i += THREADS) {  // i % LANES stays the thread's lane
        float total = 0;
        for (int warp = 0; warp < WARPS; ++warp) total += sums[warp][i / LANES][lane];
        int o = (c + i / LANES % VECTOR) * TAPS + i / LANES / VECTOR;
        if (parts > 1) partials[o * parts + part] = total;
        else out[o] = (scalar_t)(ACCUMULATE ? (float)out[o] + total : total);
    }
}
