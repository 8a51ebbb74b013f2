// depthwise_backward_input, rung 1 "naive": a thread an input pixel, which gathers from the outputs that read it.
//
//   out[n, c, h, w] = sum over kh, kw of weight[c, kh, kw] · grad[n, c, oh, ow]  (+ out[n, c, h, w] if ACCUMULATE is 1)
//   with oh·stride = h + pad - kh·dilation (ow alike); a tap counts if that is a multiple of the stride, and the output
//   is there. grad (N, C, oH, oW), weight (C, 1, kH, kW), out (N, C, H, W); NCHW, or NHWC if the switch NHWC is 1.
//
// Moves   at the least grad + weight + out (+ out once more to add to it); 2·kH·kW FLOPs an element of grad.
// Gains   no race: each sum has one thread. The other way round, a thread an output that scatters to the pixels it read,
//         several threads add to one pixel.
// Costs   divisions and remainders for every tap, as nobody knows the stride before the launch. With stride 2 half of the
//         rows and half of the columns that are tried are no multiple of it: 9 taps are tried for 2.25 that count.
#include <cuda_fp16.h>

extern "C" __global__ void depthwise_backward_input(
    const scalar_t* __restrict__ grad, const scalar_t* __restrict__ weight, scalar_t* __restrict__ out, int N, int C, int H, int W, int oH, int oW,
    int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, N·C·H·W), rounded up to whole blocks
    if (i >= (unsigned)N * C * H * W) return;
    int c = NHWC ? i % C : i / (H * W) % C, n = i / (C * H * W);
    int pixel = (NHWC ? i / C : i) % (H * W), h = pixel / W, w = pixel % W;
    const scalar_t* g = grad + (NHWC ? n * C * oH * oW + c : (n * C + c) * oH * oW);  // of this image and channel
    int step = NHWC ? C : 1;                                                          // from pixel to pixel

    acc_t acc = 0;
    for (int kh = 0; kh < kH; ++kh) {
        int up = h + pad_top - kh * dilation_h;
        if (up < 0 || up % stride_h != 0 || up / stride_h >= oH) continue;
        for (int kw = 0; kw < kW; ++kw) {
            int left = w + pad_left - kw * dilation_w;
            if (left < 0 || left % stride_w != 0 || left / stride_w >= oW) continue;
            acc += (acc_t)weight[(c * kH + kh) * kW + kw] * (acc_t)g[(up / stride_h * oW + left / stride_w) * step];
        }
    }
    out[i] = (scalar_t)(ACCUMULATE ? (acc_t)out[i] + acc : acc);
}
