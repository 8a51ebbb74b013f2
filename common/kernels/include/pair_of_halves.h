// pair_of_halves.h - fp32 products on tensor cores as three products of halves; common/kernels/pair_of_halves.py
// is its twin.
//
//   split_halves(high, low, a, b, scale)      scale·a and scale·b as high + low, two halves a register; a below b
//   split_halves(high, low, x, scale)         2N floats x into N registers each: x[2i], x[2i + 1] into high[i], low[i]
//   mma_halves(d, a, a_low, b, b_low)         d (16×8) += a (16×16) · b (16×8), of factors that are split
//   add_scaled(sum, part, unscale)            sum += part · unscale, where unscale = 1 / (scale of a · scale of b)
//
// A float has 24 significant bits, a half 11. high is the float rounded to a half, low the difference rounded to a
// half: the difference has 12 bits and a sign, so at most its last bit is lost. (a + a')·(b + b') = a'·b + a·b' +
// a·b + a'·b': the last product is at most 2^-22 of a·b and errs to both sides, so it is left out. The small ones
// come first, lest they lose bits in a large sum.
//
// Range. A half ends at 65,504, and below 2^-14 it has fewer bits, in steps of 2^-24. `scale`, a power of two so
// that scaling is exact, must bring all numbers of a factor below the end and the large ones near it:
//   |scale·x| < 65,520       else high is infinite and what is computed with it NaN
//   |scale·x| ≥ 2^-2         high + low = scale·x, but for at most 2^-23 of it
//   |scale·x| < 2^-2         high + low = scale·x, but for at most 2^-25
// With the largest number at 2^14 or more the last error is at most 2^-39 of it. The caller states the scale, from a
// bound on the numbers. Where nothing bounds them, take tf32x3.h: its parts have the exponents of a float.
//
// Sums. Tensor cores truncate them, see tf32x3.h, so a sum passed here has at most 32 terms: two mma_halves from 0,
// with six truncations where 3xTF32 has twelve. add_scaled, which rounds to nearest, takes it to the rest. Products
// are at most 2^32 and at least 2^-48, within a float's range.
//
// Half the mma of 3xTF32; and a number that is split before it is stored takes no more memory than a float.
#pragma once
#include "ptx.h"
#include "vec.h"

__device__ __forceinline__ void split_halves(unsigned& high, unsigned& low, float a, float b, float scale = 1.0f) {
    float high_a, high_b;
    high = pack(a * scale, b * scale);
    unpack(high_a, high_b, high);
    low = pack(fmaf(a, scale, -high_a), fmaf(b, scale, -high_b));  // the differences are floats, without a rounding
}
template <int N>
__device__ __forceinline__ void split_halves(unsigned (&high)[N], unsigned (&low)[N], const float (&x)[2 * N],
                                             float scale = 1.0f) {
#pragma unroll
    for (int i = 0; i < N; ++i) split_halves(high[i], low[i], x[2 * i], x[2 * i + 1], scale);
}

__device__ __forceinline__ void mma_halves(float (&d)[4], const unsigned (&a)[4], const unsigned (&a_low)[4],
                                           const unsigned (&b)[2], const unsigned (&b_low)[2]) {
    mma_f16(d, a_low, b);
    mma_f16(d, a, b_low);
    mma_f16(d, a, b);
}

__device__ __forceinline__ void add_scaled(float (&sum)[4], const float (&part)[4], float unscale) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] = fmaf(part[i], unscale, sum[i]);
}
