// depthwise_backward_weight, rung 3 "block_reduction": a block an element of the weight; no atomics.
//
// Moves   kH·kW times grad + x: each block reads a channel of both for one tap; caches serve what blocks beside it read.
// Gains   THREADS sums side by side in registers, then log2(32) shuffles and one addition a warp: THREADS·C·kH·kW threads,
//         and no two of them write to one place. The order of the additions is fixed, so the result is the same every time.
// Costs   everything is read kH·kW times. A block a channel fits NCHW; in NHWC neighbouring threads read C elements apart.
//         Few channels are few blocks: 288 of them for 32 channels, each with a 288th of all the work.
#include <cuda_fp16.h>

extern "C" __global__ void depthwise_backward_weight(
    const scalar_t* __restrict__ grad, const scalar_t* __restrict__ x, acc_t* partials, scalar_t* __restrict__ out, int N, int C, int H, int W,
    int oH, int oW, int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w, int parts) {
    __shared__ acc_t sums[THREADS / 32];
    int i = blockIdx.x;  // range [0, C·kH·kW)
    int c = i / (kH * kW), kh = i / kW % kH, kw = i % kW;
    int step = NHWC ? C : 1;  // from pixel to pixel

    acc_t sum = 0;
    for (unsigned p = threadIdx.x; p < (unsigned)N * oH * oW; p += THREADS) {
        int n = p / (oH * oW), oh = p / oW % oH, ow = p % oW;
        int ih = oh * stride_h - pad_top + kh * dilation_h, iw = ow * stride_w - pad_left + kw * dilation_w;
        if (ih < 0 || ih >= H || iw < 0 || iw >= W) continue;
        const scalar_t* g = grad + (NHWC ? n * C * oH * oW + c : (n * C + c) * oH * oW);  // of this image and channel
        const scalar_t* in = x + (NHWC ? n * C * H * W + c : (n * C + c) * H * W);
        sum += (acc_t)g[(oh * oW + ow) * step] * (acc_t)in[(ih * W + iw) * step];
    }

    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_down_sync(0xffffffffu, sum, lanes);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    sum = 0;
    for (int warp = 0; warp < THREADS / 32; ++warp) sum += sums[warp];
    out[i] = (scalar_t)(ACCUMULATE ? (acc_t)out[i] + sum : sum);
}
