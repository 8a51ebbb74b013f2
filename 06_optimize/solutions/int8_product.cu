// requires: sm_80
// int8_product: y = requantize(x · wᵀ + bias). x (P, C), w (O, C) and y (P, O) are int8, row
// by row; bias (O) int32, multiplier (O) float, one per output channel. C is a multiple of 32,
// P and O may be anything. A block is one warp and computes 16×8 of y: the rows from
// 16 · blockIdx.y on, the columns from 8 · blockIdx.x on.
// the header has mma_s8(d, a, b) and requantize(acc, multiplier, zero_point, low, high)
#include "requantize.h"

extern "C" __global__ void int8_product(const signed char* x, const signed char* w,
                                        const int* bias, const float* multiplier,
                                        signed char* y, int P, int C, int O, int zero_point,
                                        int low, int high) {
    // BEGIN SOLUTION
    // write: the kernel
    const int p0 = blockIdx.y * 16, o0 = blockIdx.x * 8;
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    int d[4] = {};
    for (int c = 0; c < C; c += 32) {
        unsigned a[4], b[2];
        for (int i = 0; i < 4; ++i) {
            const int p = p0 + g + i % 2 * 8;
            a[i] = p < P ? *(const unsigned*)&x[p * C + c + 4 * t + i / 2 * 16] : 0;
        }
        for (int i = 0; i < 2; ++i)
            b[i] = o0 + g < O ? *(const unsigned*)&w[(o0 + g) * C + c + 4 * t + i * 16] : 0;
        mma_s8(d, a, b);
    }
    for (int i = 0; i < 4; ++i) {
        const int p = p0 + g + i / 2 * 8, o = o0 + 2 * t + i % 2;
        if (p >= P || o >= O) continue;
        const int acc = d[i] + bias[o];
        y[p * O + o] = requantize(acc, multiplier[o], zero_point, low, high);
    }
    // END SOLUTION
}
