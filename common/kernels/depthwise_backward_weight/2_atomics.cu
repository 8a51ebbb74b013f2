// depthwise_backward_weight, rung 2 "atomics": a thread an element of grad, which adds to all taps of its channel.
//
// Moves   grad + x, and an atomic addition for every multiply-add: kH·kW for each element of grad.
// Gains   N·C·oH·oW threads instead of C·kH·kW: enough for any card.
// Costs   N·oH·oW additions to each element of out, one after the other in the second-level cache: the 115.6 million
//         additions of 32 images of 32 channels of 112 × 112 go to 288 addresses. In which order is chance, so the last
//         bits of the result differ from run to run. out must be 0, or hold what is added to, before the launch; halves
//         would be rounded at every addition, so only float and double are taken.
#include <cuda_fp16.h>

extern "C" __global__ void depthwise_backward_weight(
    const scalar_t* __restrict__ grad, const scalar_t* __restrict__ x, acc_t* partials, scalar_t* __restrict__ out, int N, int C, int H, int W,
    int oH, int oW, int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w, int parts) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, N·C·oH·oW), rounded up to whole blocks
    if (i >= (unsigned)N * C * oH * oW) return;
    int c = NHWC ? i % C : i / (oH * oW) % C, n = i / (C * oH * oW);
    int pixel = (NHWC ? i / C : i) % (oH * oW), oh = pixel / oW, ow = pixel % oW;
    const scalar_t* in = x + (NHWC ? n * C * H * W + c : (n * C + c) * H * W);  // of this image and channel
    int step = NHWC ? C : 1;                                                    // from pixel to pixel

    acc_t g = (acc_t)grad[i];
    for (int kh = 0; kh < kH; ++kh) {
        int ih = oh * stride_h - pad_top + kh * dilation_h;
        if (ih < 0 || ih >= H) continue;
        for (int kw = 0; kw < kW; ++kw) {
            int iw = ow * stride_w - pad_left + kw * dilation_w;
            if (iw < 0 || iw >= W) continue;
            atomicAdd(out + (c * kH + kh) * kW + kw, g * (acc_t)in[(ih * W + iw) * step]);
        }
    }
}
