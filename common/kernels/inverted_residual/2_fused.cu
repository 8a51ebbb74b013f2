// inverted_residual, rung 2 "fused": one kernel; what an output pixel needs of hidden stays in shared memory.
//
//   One block per output pixel. It expands the 3×3 pixels under its taps, all HIDDEN channels of them:
//   x  ──expand──►  hidden [9][HIDDEN]  ──depthwise──►  dw [HIDDEN]  ──project──►  y [O]
//                   shared memory                       shared memory
//
// Moves   x, weights and y: no hidden number is ever written to global memory, and none is read from there.
// Gains   the traffic of both hidden tensors, two launches, and the scratch memory. What was three kernels is three
//         loops with a barrier between them: a thread reads what others of its block have computed.
// Costs   a hidden pixel lies under nine windows, and nine blocks compute it: nine times the multiply-adds of expand at
//         stride 1. And each block reads all weights for one output pixel.
#include "fused.h"

constexpr int IN_W = 3, PIXELS_IN = 9;  // hidden pixels of a block: columns of a row, all of them

extern "C" __global__ void __launch_bounds__(THREADS, 2)
inverted_residual(const scalar_t* __restrict__ x, const scalar_t* __restrict__ expand,
                  const scalar_t* __restrict__ expand_bias, const scalar_t* __restrict__ depthwise,
                  const scalar_t* __restrict__ depthwise_bias, const scalar_t* __restrict__ project,
                  const scalar_t* __restrict__ project_bias, const scalar_t* __restrict__ residual,
                  scalar_t* __restrict__ y, scalar_t* scratch, int N, int H, int W, int C, int HIDDEN, int O,
                  float low1, float high1, float low2, float high2, float low3, float high3) {
    extern __shared__ uint4 memory[];
    scalar_t* const hidden = (scalar_t*)memory;        // [PIXELS_IN][HIDDEN]
    scalar_t* const dw = hidden + PIXELS_IN * HIDDEN;  // [HIDDEN]
    const int OH = (H - 1) / STRIDE + 1, OW = (W - 1) / STRIDE + 1;
    const int ox = blockIdx.x % OW, oy = blockIdx.x / OW % OH, n = blockIdx.x / OW / OH;
    const int y0 = oy * STRIDE - 1, x0 = ox * STRIDE - 1;  // the first pixel of hidden; it may lie outside of the image

    // expand: hidden = bounded(expand · x + bias); zeros outside of the image, as the depthwise pads
    for (int i = threadIdx.x; i < PIXELS_IN * HIDDEN; i += THREADS) {
        const int c = i % HIDDEN, pixel = i / HIDDEN, h = y0 + pixel / IN_W, w = x0 + pixel % IN_W;
        float v = 0.0f;
        if (h >= 0 && h < H && w >= 0 && w < W) {
            const float sum = dot(x + ((size_t)(n * H + h) * W + w) * C, expand + (size_t)c * C, C);
            v = bounded(sum + or_zero(expand_bias, c), low1, high1);
        }
        hidden[i] = (scalar_t)v;
    }
    __syncthreads();

    // depthwise: dw = bounded(3×3 of hidden + bias)
    for (int c = threadIdx.x; c < HIDDEN; c += THREADS) {
        float sum = or_zero(depthwise_bias, c);
        for (int tap = 0; tap < 9; ++tap)
            sum = fmaf((float)hidden[(tap / 3 * IN_W + tap % 3) * HIDDEN + c], (float)depthwise[c * 9 + tap], sum);
        dw[c] = (scalar_t)bounded(sum, low2, high2);
    }
    __syncthreads();

    // project: y = bounded(project · dw + bias + residual)
    for (int o = threadIdx.x; o < O; o += THREADS) {
        const size_t at = (size_t)blockIdx.x * O + o;
        const float sum = dot(dw, project + (size_t)o * HIDDEN, HIDDEN);
        y[at] = (scalar_t)bounded(sum + or_zero(project_bias, o) + or_zero(residual, at), low3, high3);
    }
}
