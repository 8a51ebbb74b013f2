// inverted_residual, rung 1 "naive": three kernels, one thread per element; two hidden tensors cross global memory.
//
//   x (N, H, W, C)  ──expand──►  hidden (N, H, W, HIDDEN)  ──depthwise──►  dw (N, OH, OW, HIDDEN)  ──project──►  y
//   y and residual (N, OH, OW, O). NHWC; weights as PyTorch has them: (HIDDEN, C), (HIDDEN, 9), (O, HIDDEN).
//   STEP says which of the three the launch is. hidden and dw lie one behind the other in scratch.
//
// Moves   x and y once, but hidden and dw twice each: written by one launch, read by the next. HIDDEN is 6·C in most
//         blocks of MobileNetV2, so nearly all bytes are those of the two hidden tensors.
// Gains   nothing yet: this is what a library does, less its fast convolutions. Every later rung computes the same.
// Costs   three launches, and scratch for both hidden tensors of the whole batch. A lane reads a row of weights of its
//         own, so a warp's load touches 32 rows; the caches bring them together again.
#include "fused.h"

extern "C" __global__ void __launch_bounds__(THREADS, 2)
inverted_residual(const scalar_t* __restrict__ x, const scalar_t* __restrict__ expand,
                  const scalar_t* __restrict__ expand_bias, const scalar_t* __restrict__ depthwise,
                  const scalar_t* __restrict__ depthwise_bias, const scalar_t* __restrict__ project,
                  const scalar_t* __restrict__ project_bias, const scalar_t* __restrict__ residual,
                  scalar_t* __restrict__ y, scalar_t* scratch, int N, int H, int W, int C, int HIDDEN, int O,
                  float low1, float high1, float low2, float high2, float low3, float high3) {
    const int OH = (H - 1) / STRIDE + 1, OW = (W - 1) / STRIDE + 1;
    scalar_t* const hidden = scratch;
    scalar_t* const dw = scratch + (size_t)N * H * W * HIDDEN;
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;

    if (STEP == 0) {  // expand: hidden = bounded(expand · x + bias), at every pixel
        const int c = i % HIDDEN, pixel = i / HIDDEN;
        if (pixel >= N * H * W) return;
        const float sum = dot(x + (size_t)pixel * C, expand + (size_t)c * C, C) + or_zero(expand_bias, c);
        hidden[i] = (scalar_t)bounded(sum, low1, high1);
    }

    if (STEP == 1) {  // depthwise: dw = bounded(3×3 of hidden + bias), a channel by itself; zeros outside of the image
        const int c = i % HIDDEN, ox = i / HIDDEN % OW, oy = i / HIDDEN / OW % OH, n = i / HIDDEN / OW / OH;
        if (n >= N) return;
        const int y0 = oy * STRIDE - 1, x0 = ox * STRIDE - 1;  // the pixel under the first tap
        float sum = or_zero(depthwise_bias, c);
        for (int tap = 0; tap < 9; ++tap) {
            const int h = y0 + tap / 3, w = x0 + tap % 3;
            if (h < 0 || h >= H || w < 0 || w >= W) continue;
            sum = fmaf((float)hidden[((size_t)(n * H + h) * W + w) * HIDDEN + c], (float)depthwise[c * 9 + tap], sum);
        }
        dw[i] = (scalar_t)bounded(sum, low2, high2);
    }

    if (STEP == 2) {  // project: y = bounded(project · dw + bias + residual)
        const int o = i % O, pixel = i / O;
        if (pixel >= N * OH * OW) return;
        const float sum = dot(dw + (size_t)pixel * HIDDEN, project + (size_t)o * HIDDEN, HIDDEN);
        const float rest = or_zero(project_bias, o) + or_zero(residual, i);
        y[i] = (scalar_t)bounded(sum + rest, low3, high3);
    }
}
