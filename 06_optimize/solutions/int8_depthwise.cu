// int8_depthwise: 3×3, stride 1, padding 1. x and y (H, W, C) are int8, C is a multiple of 4.
// weight (C, 3): a word per row of taps, the taps from left to right in bytes 0, 1, 2, byte 3
// is 0. bias (C) int32 contains −input_zero_point · Σ w; multiplier (C). A thread computes
// four channels of one pixel; there are H · W · C / 4 threads or more.
#include "requantize.h"  // requantize(…), pack(a, b, c, d): a word, a in byte 0
#include "taps.h"        // transpose(p): 4 pixels of 4 channels → 4 channels of 4 pixels

extern "C" __global__ void int8_depthwise(const signed char* x, const int* weight,
                                          const int* bias, const float* multiplier,
                                          signed char* y, int H, int W, int C,
                                          int input_zero_point, int zero_point, int low,
                                          int high) {
    // BEGIN SOLUTION
    // write: the kernel
    const int i = blockIdx.x * blockDim.x + threadIdx.x, quads = C / 4;
    if (i >= H * W * quads) return;
    const int c = i % quads * 4, ow = i / quads % W, oh = i / quads / W;
    const unsigned zero = (input_zero_point & 255) * 0x01010101u;
    int acc[4], code[4];
    for (int e = 0; e < 4; ++e) acc[e] = bias[c + e];
    for (int r = 0; r < 3; ++r) {
        unsigned p[4] = {zero, zero, zero, zero};
        const int ih = oh + r - 1;
        for (int k = 0; k < 3; ++k) {
            const int iw = ow + k - 1;
            if (0 <= ih && ih < H && 0 <= iw && iw < W)
                p[k] = *(const unsigned*)&x[(ih * W + iw) * C + c];
        }
        transpose(p);
        for (int e = 0; e < 4; ++e)
            acc[e] = __dp4a((int)p[e], weight[(c + e) * 3 + r], acc[e]);
    }
    for (int e = 0; e < 4; ++e)
        code[e] = requantize(acc[e], multiplier[c + e], zero_point, low, high);
    *(unsigned*)&y[(oh * W + ow) * C + c] = pack(code[0], code[1], code[2], code[3]);
    // END SOLUTION
}
