// diagonal.h - a 3×3 depthwise convolution of halves on tensor cores: a tap is a product with a diagonal matrix.
//
//   load_diagonals(diagonal, g, t, taps)    a lane's elements for 16 channels, whose taps lie [channel][9]; g, t: ptx.h
//   add_row<STRIDE>(sums, y, two, third, diagonal, bias)    row y of hidden pixels, to those outputs that need it
//
// two[half]: 16 pixels × 8 channels under the first tap of a row, and beside them those under the second; third: those
// under the third tap, of both halves of the channels. The sums begin as biases, where their first row is added.
#pragma once
#include "fused/numbers.h"

__device__ __forceinline__ void load_diagonals(unsigned (&diagonal)[2][9], int g, int t, const __half* taps) {
    const unsigned one = g / 2 == t ? g % 2 ? 1u << 16 : 1u : 0u;  // where among two elements of b
#pragma unroll
    for (int i = 0; i < 18; ++i)
        diagonal[i / 9][i % 9] = one * *(const unsigned short*)(taps + (i / 9 * 8 + g) * 9 + i % 9);
}

template <int STRIDE, int STRIP>
__device__ __forceinline__ void add_row(float (&sums)[STRIP][2][4], int y, const unsigned (&two)[2][4],
                                        const unsigned (&third)[4], const unsigned (&diagonal)[2][9],
                                        const float (&bias)[2][4]) {
#pragma unroll
    for (int part = 0; part < 2; ++part)  // first those under two taps: no product waits for the one before it
#pragma unroll
        for (int ky = 0; ky < 3; ++ky) {
            const int r = (y - ky) / STRIDE;  // the output that needs this row under its row ky of taps
            if (y >= ky && r * STRIDE == y - ky && r < STRIP)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const unsigned(&taps)[9] = diagonal[half];
                    float(&d)[4] = sums[r][half];
                    if (part == 1) mma_f16_k8(d, {third[2 * half], third[2 * half + 1]}, taps[ky * 3 + 2]);
                    else if (ky == 0) mma_f16(d, two[half], {taps[0], taps[1]}, bias[half]);
                    else mma_f16(d, two[half], {taps[ky * 3], taps[ky * 3 + 1]});
                }
        }
}
