// tf32x3.h - 3xTF32: fp32 products on tensor cores, three products of TF32 numbers for each. common/kernels/tf32x3.py is its twin.
//
//   split(big, small)                      a float as big + small. On the way in big holds the float's bits
//   mma_tf32x3(d, a, a_small, b, b_small)  d (16×8) += a (16×8) · b (8×8), of factors that are split, rounded to nearest
//   add_truncated(d, sum)                  d += sum, of tensor cores, with what they truncate on average
//   multiply<T>(d, a, b)                   d += a · b over 32 bytes of k: 16 halves, or 8 floats by mma_tf32x3
//
// A float has 24 significant bits, a TF32 number 11. big is the float rounded to TF32, small the difference, which has 12 bits
// and a sign; mma drops the last of them. (a + a')·(b + b') = a'·b + a·b' + a·b + a'·b': the last product is less than 2^-22
// of a·b and errs to both sides, so it is left out. The two other small ones come first, lest they lose bits in a large sum.
//
// Tensor cores truncate their sums, always towards 0, so the error grows with the length of a sum, and not with its root: at 960
// terms to 1.1e-5 of the result, where FMA errs by 6e-7. So a sum of tensor cores begins at 0 and has 8 terms, and an FADD, which
// rounds to nearest, adds it to d. What such a sum still loses is half a unit in its last place on average, whatever its sign: CUT
// of it, which add_truncated gives back, because the same loss in each layer of a network would add up.
//
// An infinity times anything becomes NaN, because its small part is ∞ − ∞. A NaN may be lost in big; it is in small as well.
#pragma once
#include "ptx.h"

__device__ __forceinline__ void split(unsigned& big, unsigned& small) {
    const float x = __uint_as_float(big);
    big = (big + 0x1000u) & 0xffffe000u;  // to_tf32, but for NaN and infinities, which are NaN in small: two instructions less
    small = __float_as_uint(x - __uint_as_float(big));
}
#ifdef __CUDA_SIMULATOR__  // its tensor cores round to nearest
constexpr float CUT = 0.0f;
#else
constexpr float CUT = 4.2e-8f;  // 2^-24 of numbers that are 1.44 on average, between 1 and 2
#endif

// d += sum, a sum of tensor cores
__device__ __forceinline__ void add_truncated(float (&d)[4], const float (&sum)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) d[i] += fmaf(sum[i], CUT, sum[i]);
}

template <int N> __device__ __forceinline__ void split(unsigned (&big)[N], unsigned (&small)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) split(big[i], small[i]);
}

__device__ __forceinline__ void mma_tf32x3(float (&d)[4], const unsigned (&a)[4], const unsigned (&a_small)[4],
                                           const unsigned (&b)[2], const unsigned (&b_small)[2]) {
    float sum[4] = {};
    mma_tf32(sum, a_small, b);
    mma_tf32(sum, a, b_small);
    mma_tf32(sum, a, b);
    add_truncated(d, sum);
}

template <class T> __device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    if constexpr (sizeof(T) == 2) mma_f16(d, a, b);
    else {
        unsigned a_big[4], a_small[4], b_big[2], b_small[2];
#pragma unroll
        for (int i = 0; i < 4; ++i) a_big[i] = a[i];
#pragma unroll
        for (int i = 0; i < 2; ++i) b_big[i] = b[i];
        split(a_big, a_small);
        split(b_big, b_small);
        mma_tf32x3(d, a_big, a_small, b_big, b_small);
    }
}
