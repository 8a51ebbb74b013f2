// pair_of_halves.h - fp32 products on tensor cores as three products of halves; common/kernels/pair_of_halves.py
// is its twin.
//
//   split_halves(high, low, a, b, scale)      scale·a and scale·b as high + low, two halves a register; a below b
//   split_half(high, low, a, scale)           the same of a alone, with zeros above
//   split_halves(high, low, x, scale)         2N floats x into N registers each: x[2i], x[2i + 1] into high[i], low[i]
//   split_fragment(a, a_low, first, second, scale)    the fragment of 16×16 floats out of two ldmatrix_x4, see below
//   mma_halves(d, a, a_low, b, b_low)         d (16×8) += a (16×16) · b (16×8), of factors that are split
//   mma_halves(d, a, a_low, b)                the same of A fragments a and B fragments b, each b with its b_low behind
//                                             it; product by product, so that no mma waits for the one before
//   add_scaled(sum, part, unscale)            sum += part · unscale, with unscale = 1 / (scale of a · scale of b); of
//                                             one or of A×B
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
// Sums. Tensor cores truncate them, see tf32x3.h. So a sum passed here begins at 0 and has 16 terms, those of one
// mma_halves, which truncates three times, and only once next to a large sum; add_scaled, which rounds to nearest,
// takes it to the rest. Sums of 32 terms take half as many add_scaled and have a larger error. Products are at most
// 2^32 and at least 2^-48, within a float's range.
//
// Fragments. ldmatrix brings lane t of a row of floats, 8 in `first` and the next 8 in `second`, columns t, t + 4,
// t + 8 and t + 12, where mma has 2t, 2t + 1, 2t + 8 and 2t + 9. A sum does not ask for an order, so b must only have
// the same one, as Halves.of (common/kernels/halves.py) writes it: 16 numbers of a row are 4 pieces of 4 words, with
// high of (t, t + 4), high of (t + 8, t + 12), and low of both likewise in word t, so that one ldmatrix_x4 brings b[0],
// b[1], b_low[0], b_low[1].
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
__device__ __forceinline__ void split_half(unsigned& high, unsigned& low, float a, float scale) {
    float high_a, zero;
    high = pack(a * scale, 0.0f);
    unpack(high_a, zero, high);
    low = pack(fmaf(a, scale, -high_a), 0.0f);
}
template <int N>
__device__ __forceinline__ void split_halves(unsigned (&high)[N], unsigned (&low)[N], const float (&x)[2 * N],
                                             float scale = 1.0f) {
#pragma unroll
    for (int i = 0; i < N; ++i) split_halves(high[i], low[i], x[2 * i], x[2 * i + 1], scale);
}

__device__ __forceinline__ void split_fragment(unsigned (&a)[4], unsigned (&a_low)[4], const unsigned (&first)[4],
                                               const unsigned (&second)[4], float scale) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        split_halves(a[i], a_low[i], __uint_as_float(first[i]), __uint_as_float(first[i + 2]), scale);
        split_halves(a[i + 2], a_low[i + 2], __uint_as_float(second[i]), __uint_as_float(second[i + 2]), scale);
    }
}

__device__ __forceinline__ void mma_halves(float (&d)[4], const unsigned (&a)[4], const unsigned (&a_low)[4],
                                           const unsigned (&b)[2], const unsigned (&b_low)[2]) {
    mma_f16(d, a_low, b);
    mma_f16(d, a, b_low);
    mma_f16(d, a, b);
}

template <int A, int B>
__device__ __forceinline__ void mma_halves(float (&d)[A][B][4], const unsigned (&a)[A][4],
                                           const unsigned (&a_low)[A][4], const unsigned (&b)[B][4]) {
#pragma unroll
    for (int product = 0; product < 3; ++product) {
        const int low = product == 1 ? 2 : 0;
#pragma unroll
        for (int m = 0; m < A; ++m)
#pragma unroll
            for (int n = 0; n < B; ++n) mma_f16(d[m][n], product == 0 ? a_low[m] : a[m], {b[n][low], b[n][low + 1]});
    }
}

__device__ __forceinline__ void add_scaled(float (&sum)[4], const float (&part)[4], float unscale) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] = fmaf(part[i], unscale, sum[i]);
}
template <int A, int B>
__device__ __forceinline__ void add_scaled(float (&sum)[A][B][4], const float (&part)[A][B][4], float unscale) {
#pragma unroll
    for (int m = 0; m < A; ++m)
#pragma unroll
        for (int n = 0; n < B; ++n) add_scaled(sum[m][n], part[m][n], unscale);
}
