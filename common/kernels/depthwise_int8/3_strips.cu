// depthwise_int8, rung 3 "strips": 3×3 filters; a thread goes down ROWS rows of y, COLUMNS columns wide, for four channels.
//
//   Pixels beside each other are transposed by pairs, and a word of four pixels is put together from two pairs. It serves two
//   columns of y at stride 1, as in rung 2, and stays in registers for all rows of y that need it:
//
//     pixels       0 1   2 3   4 5   6 7   8 9                  the words of three rows
//     pairs        ═══   ═══   ═══   ═══   ═══   4 prmt each    row r − 1  ■ ■ ■ ■  ┐
//     words        ╰─ 0 ───╯     ╰─ 2 ───╯                      row r      ■ ■ ■ ■  ├─ dp4a ─► row r of y
//                        ╰─ 1 ───╯     ╰─ 3 ───╯  4 prmt each   row r + 1  ■ ■ ■ ■  ┘
//
// Moves   x (ROWS + 2) / ROWS times down and (COLUMNS + 2) / COLUMNS times across, at stride 1; y once; weights per thread.
// Gains   a pixel is loaded once for all the columns of a strip: rung 2 loads four pixels for two columns. If a strip is as wide
//         as the image, no pixel needs a look at where the image ends. Sizes are compiled in, so that addresses are constants
//         beside a base. SMALL_SUMS: see requantize.h; ONE_STEP: one_step.h.
// Costs   fewer threads of more registers, which a small batch lacks; a compilation per size of image.
#include "one_step.h"
#include "requantize.h"
#include "taps.h"

#ifndef SMALL_SUMS
#define SMALL_SUMS 0
#endif
#ifndef ONE_STEP
#define ONE_STEP 0  // whether bias and multiplier are those of one_step.h: multiplier [2][C], offsets behind multipliers
#endif
constexpr int PER = STRIDE == 1 ? 2 : 1;  // columns of y of a word
constexpr int SMALL = ONE_STEP ? 0 : SMALL_SUMS;
constexpr int WORDS = (COLUMNS + PER - 1) / PER, PIXELS = 2 * WORDS + 2;
constexpr int OUT_WIDTH = (WIDTH + PADDING - 3) / STRIDE + 1, STRIPS = (OUT_WIDTH - 1) / COLUMNS + 1;  // PADDING: left and right

// The words of a row of x, from its column `left` on. Outside of the image they are `zero`.
__device__ __forceinline__ void load_row(unsigned (&words)[WORDS][4], const signed char* row, int left, bool inside, unsigned zero) {
    unsigned pixels[PIXELS], low[WORDS + 1], high[WORDS + 1];  // of a pair: channels 0 and 1, and 2 and 3
#pragma unroll
    for (int k = 0; k < PIXELS; ++k)
        pixels[k] = inside && (unsigned)(left + k) < WIDTH ? __ldg((const unsigned*)(row + (left + k) * CHANNELS)) : zero;
#pragma unroll
    for (int k = 0; k <= WORDS; ++k) {
        low[k] = __byte_perm(pixels[2 * k], pixels[2 * k + 1], 0x5140);
        high[k] = __byte_perm(pixels[2 * k], pixels[2 * k + 1], 0x7362);
    }
#pragma unroll
    for (int k = 0; k < WORDS; ++k) {
        words[k][0] = __byte_perm(low[k], low[k + 1], 0x5410), words[k][1] = __byte_perm(low[k], low[k + 1], 0x7632);
        words[k][2] = __byte_perm(high[k], high[k + 1], 0x5410), words[k][3] = __byte_perm(high[k], high[k + 1], 0x7632);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) depthwise_int8(
    const signed char* __restrict__ x, const signed char* __restrict__ weight, const int* __restrict__ bias,
    const float* __restrict__ multiplier, signed char* __restrict__ y, int N, int C, int H, int W, int oH, int oW,
    int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w,
    int input_zero_point, int zero_point, int low, int high) {
    constexpr int quads = CHANNELS / 4;
    const int down = (oH - 1) / ROWS + 1;
    const int i = blockIdx.x * THREADS + threadIdx.x;  // range [0, N·down·STRIPS·quads), rounded up to whole blocks
    if (i >= N * down * STRIPS * quads) return;
    const int c = i % quads * 4, ow = STRIPS == 1 ? 0 : i / quads % STRIPS * COLUMNS;
    const int oh = i / quads / STRIPS % down * ROWS, n = i / quads / STRIPS / down;

    unsigned packed[9], w[4][3];  // w[e][kh]: the taps of channel c + e, row kh, and a zero
#pragma unroll
    for (int k = 0; k < 9; ++k) packed[k] = __ldg((const unsigned*)(weight + c * 9) + k);
    filters(w, packed);
    const int4 b = bias ? __ldg((const int4*)(bias + c)) : make_int4(0, 0, 0, 0);
    const float4 m = __ldg((const float4*)(multiplier + c)), shift = ONE_STEP ? __ldg((const float4*)(multiplier + CHANNELS + c)) : m;
    // (here: or a compiler adds what they begin at to each of the sums when it is over)
    const int start[4] = {here(begin<SMALL>(b.x)), here(begin<SMALL>(b.y)), here(begin<SMALL>(b.z)), here(begin<SMALL>(b.w))};
    const unsigned zero = (input_zero_point & 255) * 0x01010101u;

    int ih = oh * STRIDE - pad_top;
    const int left = ow * STRIDE - PAD_LEFT;
    const signed char* from = x + (((long long)n * H + ih) * WIDTH * CHANNELS + c);  // of a row that may lie above the image
    signed char* to = y + ((((size_t)n * oH + oh) * OUT_WIDTH + ow) * CHANNELS + c);
    unsigned rows[3][WORDS][4];  // row r of x is at r % 3
    const auto load_next = [&](int r) {
        load_row(rows[r % 3], from, left, (unsigned)ih < (unsigned)H, zero);
        ++ih, from += WIDTH * CHANNELS;
    };
#pragma unroll
    for (int r = 0; r < 3 - STRIDE; ++r) load_next(r);
#pragma unroll
    for (int row = 0; row < ROWS; ++row, to += OUT_WIDTH * CHANNELS) {
        if (oh + row >= oH) return;
#pragma unroll
        for (int r = 3 - STRIDE; r < 3; ++r) load_next(row * STRIDE + r);
#pragma unroll
        for (int column = 0; column < COLUMNS; ++column) {
            int sum[4] = {start[0], start[1], start[2], start[3]};
#pragma unroll
            for (int kh = 0; kh < 3; ++kh)
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    sum[e] = __dp4a((int)rows[(row * STRIDE + kh) % 3][column / PER][e], (int)(w[e][kh] << 8 * (column % PER)), sum[e]);
            if (ow + column < OUT_WIDTH)
                *(unsigned*)(to + column * CHANNELS) =
                    ONE_STEP ? codes_of_four(sum, m, shift) : requantize_four<SMALL>(sum, m.x, m.y, m.z, m.w, zero_point, low, high);
        }
    }
}
