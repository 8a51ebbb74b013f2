// one_step.h - an int32 sum of an int8 product becomes its output's code + 128: by one fma where kernels/one_step.py
// found parameters with which that has the bits of int8.requantize, else by its two roundings.
//
//   code_of<EXACT, MAY_BE_ODD>(sum, multiplier, offset)    not yet clamped to 0 … 255, what pack_unsigned does.
//            EXACT: by two roundings; MAY_BE_ODD: whether the zero point may be, which then takes an instruction more
//   codes_of_four(sum, multiplier, offset)    the codes of four sums that all take one fma, clamped to −128 … 127 and packed
//   End      multiplier and offset of two neighbouring channels
//
// A sum begins at the bits of a small float, so that, read as a float, it is the sum times a power of two; the
// result's bits are a multiple of 2^-149, an integer.
#pragma once
#include "ptx.h"

struct End {
    float multiplier[2], offset[2];
};
template <bool EXACT, bool MAY_BE_ODD> __device__ __forceinline__ int code_of(int sum, float multiplier, float offset) {
    const float x = __int_as_float(sum);
    if constexpr (!EXACT) return __float_as_int(fma_of_small(x, multiplier, offset));
    // sum · 2^-100; · multiplier, rounded; to units of 2^-149, rounded; the zero point
    const float product = __fmul_rn(__fadd_rn(x, -0x1.8p-77f), multiplier);
    // ties go to the even sum · multiplier, which is the even code only if the zero point is even
    if constexpr (!MAY_BE_ODD) return __float_as_int(fma_of_small(product, 0x1p-109f, offset));
    return __float_as_int(fma_of_small(fma_of_small(product, 0x1p-109f, 0.0f), 1.0f, offset));
}
__device__ __forceinline__ unsigned codes_of_four(const int (&sum)[4], float4 multiplier, float4 offset) {
    const int a = code_of<false, false>(sum[0], multiplier.x, offset.x), b = code_of<false, false>(sum[1], multiplier.y, offset.y);
    const int c = code_of<false, false>(sum[2], multiplier.z, offset.z), d = code_of<false, false>(sum[3], multiplier.w, offset.w);
    return pack_unsigned(a, b, c, d) ^ 0x80808080u;
}
