// depthwise_backward_weight, rung 1 "naive": a thread an element of the weight, which adds up over all images and pixels.
//
//   out[c, kh, kw] = sum over n, oh, ow of grad[n, c, oh, ow] · x[n, c, ih, iw]  (+ out[c, kh, kw] if ACCUMULATE is 1)
//   with ih = oh·stride - pad + kh·dilation (iw alike); terms outside the image are 0. grad (N, C, oH, oW),
//   x (N, C, H, W), out (C, 1, kH, kW); grad and x NCHW, or NHWC if the switch NHWC is 1. partials, parts: of rung 4.
//
// Moves   at the least grad + x; 2·kH·kW FLOPs an element of grad. Asked for are two elements a multiply-add.
// Gains   no race: each sum has one thread, whatever the shape.
// Costs   C·kH·kW threads, 288 for the 12.8 million pixels of 32 images of 32 channels of 112 × 112, and each sum is one
//         chain of N·oH·oW additions that wait for each other: 401,408 of them there.
#include <cuda_fp16.h>

extern "C" __global__ void depthwise_backward_weight(
    const scalar_t* __restrict__ grad, const scalar_t* __restrict__ x, acc_t* partials, scalar_t* __restrict__ out, int N, int C, int H, int W,
    int oH, int oW, int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w, int parts) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, C·kH·kW), rounded up to whole blocks
    if (i >= (unsigned)C * kH * kW) return;
    int c = i / (kH * kW), kh = i / kW % kH, kw = i % kW;
    int step = NHWC ? C : 1;  // from pixel to pixel

    acc_t sum = 0;
    for (int n = 0; n < N; ++n) {
        const scalar_t* g = grad + (NHWC ? n * C * oH * oW + c : (n * C + c) * oH * oW);  // of this image and channel
        const scalar_t* in = x + (NHWC ? n * C * H * W + c : (n * C + c) * H * W);
        for (int oh = 0; oh < oH; ++oh) {
            int ih = oh * stride_h - pad_top + kh * dilation_h;
            if (ih < 0 || ih >= H) continue;
            for (int ow = 0; ow < oW; ++ow) {
                int iw = ow * stride_w - pad_left + kw * dilation_w;
                if (iw < 0 || iw >= W) continue;
                sum += (acc_t)g[(oh * oW + ow) * step] * (acc_t)in[(ih * W + iw) * step];
            }
        }
    }
    out[i] = (scalar_t)(ACCUMULATE ? (acc_t)out[i] + sum : sum);
}
