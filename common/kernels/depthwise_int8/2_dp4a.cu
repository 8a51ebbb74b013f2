// depthwise_int8, rung 2 "dp4a": 3×3 filters; a thread takes four channels of COLUMNS columns of ROWS rows of y.
//
//   Four pixels beside each other have four channels each, 16 bytes. Transposed (taps.h) they are four words, of one channel
//   each: the pixels iw … iw + 3. With the weights (w0, w1, w2, 0) of a row of taps, dp4a adds three products to a sum; at
//   stride 1 (0, w0, w1, w2) gives the next output's from the same word.
//
//     pixel iw    c0 c1 c2 c3            c0: x[iw] x[iw+1] x[iw+2] x[iw+3]   · (w0 w1 w2 0) → y[ow],  · (0 w0 w1 w2) → y[ow+1]
//     pixel iw+1  c0 c1 c2 c3    8 prmt  c1: …
//     pixel iw+2  c0 c1 c2 c3   ──────►  c2: …
//     pixel iw+3  c0 c1 c2 c3            c3: …
//
// Moves   x about 2·(ROWS + 2) / ROWS times at stride 1, mostly from L1, in words of four channels; y once; weights per thread.
// Gains   3 dp4a per output for 9 multiply-adds. A transposed row serves three rows of y, and at stride 1 two columns.
// Costs   C must be a multiple of 4. A quarter of each dp4a multiplies by zero. Requantizing takes 7 instructions per output;
//         kernels.inspect counts 27 in all at stride 1, for sm_90.
#include "requantize.h"
#include "taps.h"

constexpr int COLUMNS = STRIDE == 1 ? 2 : 1;     // outputs of a word
constexpr int PIXELS = COLUMNS + 2;              // of x, that they need
constexpr int ROWS_IN = (ROWS - 1) * STRIDE + 3;

extern "C" __global__ void depthwise_int8(
    const signed char* __restrict__ x, const signed char* __restrict__ weight, const int* __restrict__ bias,
    const float* __restrict__ multiplier, signed char* __restrict__ y, int N, int C, int H, int W, int oH, int oW,
    int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w,
    int input_zero_point, int zero_point, int low, int high) {
    const int quads = C / 4, across = (oW - 1) / COLUMNS + 1, down = (oH - 1) / ROWS + 1;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, N·down·across·quads), rounded up to whole blocks
    if (i >= N * down * across * quads) return;
    const int c = i % quads * 4, ow = i / quads % across * COLUMNS, oh = i / quads / across % down * ROWS, n = i / quads / across / down;

    unsigned packed[9], w[4][3];  // w[e][kh]: the taps of channel c + e, row kh, and a zero
#pragma unroll
    for (int k = 0; k < 9; ++k) packed[k] = __ldg((const unsigned*)(weight + c * 9) + k);
    filters(w, packed);
    const int4 b = bias ? __ldg((const int4*)(bias + c)) : make_int4(0, 0, 0, 0);
    const float4 m = __ldg((const float4*)(multiplier + c));
    int acc[ROWS][COLUMNS][4];
#pragma unroll
    for (int k = 0; k < ROWS * COLUMNS; ++k) {
        int* const four = acc[k / COLUMNS][k % COLUMNS];
        four[0] = b.x, four[1] = b.y, four[2] = b.z, four[3] = b.w;
    }

    const int ih0 = oh * STRIDE - pad_top, iw0 = ow * STRIDE - pad_left;
    const unsigned zero = (input_zero_point & 255) * 0x01010101u;
    unsigned at = ((n * H + ih0) * W + iw0) * C + c;  // of the first pixel; outside of the image nothing is loaded from there
    bool inside[PIXELS];
#pragma unroll
    for (int k = 0; k < PIXELS; ++k) inside[k] = (unsigned)(iw0 + k) < (unsigned)W;
#pragma unroll
    for (int r = 0; r < ROWS_IN; ++r, at += W * C) {
        unsigned p[4] = {zero, zero, zero, zero};
#pragma unroll
        for (int k = 0; k < PIXELS; ++k)
            if ((unsigned)(ih0 + r) < (unsigned)H && inside[k]) p[k] = __ldg((const unsigned*)(x + (at + k * C)));
        transpose(p);
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            const int kh = r - row * STRIDE;
            if (kh < 0 || kh > 2) continue;
#pragma unroll
            for (int e = 0; e < 4; ++e)
#pragma unroll
                for (int column = 0; column < COLUMNS; ++column)
                    acc[row][column][e] = __dp4a((int)p[e], (int)(w[e][kh] << 8 * column), acc[row][column][e]);
        }
    }
    const unsigned to = ((n * oH + oh) * oW + ow) * C + c;
#pragma unroll
    for (int row = 0; row < ROWS; ++row)
#pragma unroll
        for (int column = 0; column < COLUMNS; ++column) {
            const int* const four = acc[row][column];
            if (oh + row < oH && ow + column < oW)
                *(unsigned*)(y + (to + (row * oW + column) * C)) =
                    pack(requantize(four[0], m.x, zero_point, low, high), requantize(four[1], m.y, zero_point, low, high),
                         requantize(four[2], m.z, zero_point, low, high), requantize(four[3], m.w, zero_point, low, high));
        }
}
