// requantize.h - the end of an int8 product: int32 sums become int8 outputs. int8.py is the same in NumPy, bit for bit.
//
//   requantize(acc, multiplier, zero_point, low, high)   clamp(round(acc · multiplier) + zero_point, low, high)
//   add_scaled(a, b, scale_a, scale_b, shift, offset, low, high)
//                                                        clamp(round(a · scale_a + (b · scale_b + shift)), low, high), two fma;
//                                                        a, b, low, high and the result are `offset` lower than what is used
//   begin<SMALL>(bias)                   what a sum begins at, for requantize_four<SMALL>: the bias, or the bias + SHIFTED
//   requantize_four<SMALL>(sum, multiplier, zero_point, low, high)
//                                        four sums, requantized and packed
//   quantized(v, zero_point, low, high)                  clamp(round(v) + zero_point, low, high) of a float; NaN gives low
//   pack(a, b, c, d)                                     the low bytes of four int in a register, a the lowest
//   byte_of(four, i)                                     byte i of a register as a signed int
//
// acc becomes a float first: exact up to 2^24, to the nearest even float beyond. The product is rounded once, to float; then
// to the nearest integer, ties to even. low and high lie in [-128, 127]: ReLU6 is low = zero_point, high = that of 6.
//
// Rounding without a conversion instruction: from 2^23 on neighbouring floats are 1 apart, so v + 1.5·2^23 rounds v to an
// integer, ties to even, and its bits are those of 1.5·2^23 plus that integer. v must be below 2^22: it is clamped before.
//
// SMALL = 1: no sum, and no sum · multiplier, reaches 2^22 in magnitude (int8.small_sums), and low, high are −128, 127. Then
// the same trick makes sums floats: a sum that begins at the bits of 1.5·2^23 is, read as a float, 1.5·2^23 plus the sum.
// Neither way needs a conversion instruction, and the clamp is part of packing: 4.5 instructions per output, else 7.75.
//
// SMALL = 2: the same, and the sum with a residual is clamped to −128 … 127, too (epilogue_int8.h).
// SMALL = 3: sums of any size; low, high are −128, 127, also those of a sum with a residual. A float that is multiplied by
// 2^-149 is rounded to a multiple of it, whose bits are the integer: 4.75 instructions, with one for the sum as a float.
#pragma once
#include "ptx.h"

constexpr float INTEGERS = 12582912.0f;  // 1.5·2^23, 0x4b400000

__device__ __forceinline__ int quantized(float v, int zero_point, int low, int high) {
    v = fminf(fmaxf(v, (float)(low - zero_point)), (float)(high - zero_point));
    return __float_as_int(__fadd_rn(v, INTEGERS)) - __float_as_int(INTEGERS) + zero_point;
}
__device__ __forceinline__ int requantize(int acc, float multiplier, int zero_point, int low, int high) {
    return quantized(__fmul_rn(__int2float_rn(acc), multiplier), zero_point, low, high);
}
__device__ __forceinline__ int add_scaled(int a, int b, float scale_a, float scale_b, float shift, int offset, int low, int high) {
    const float rest = __fmaf_rn(__int2float_rn(b + offset), scale_b, shift);
    return quantized(__fmaf_rn(__int2float_rn(a + offset), scale_a, rest), 0, low + offset, high + offset) - offset;
}
constexpr int SHIFTED = 0x4b400000;  // the bits of INTEGERS

template <int SMALL> __device__ __forceinline__ int begin(int bias) { return SMALL == 1 || SMALL == 2 ? bias + SHIFTED : bias; }
__device__ __forceinline__ int requantize_small(int sum, float multiplier, int zero_point) {
    const float product = __fmul_rn(__fadd_rn(__int_as_float(sum), -INTEGERS), multiplier);
    return __float_as_int(__fadd_rn(product, INTEGERS)) + (zero_point - SHIFTED);
}
__device__ __forceinline__ unsigned pack(int a, int b, int c, int d) {
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}
// A code + 128, not yet clamped to 0 … 255, of a sum of any size.
__device__ __forceinline__ int requantize_large(int sum, float multiplier, int zero_point) {
    const float product = __fmul_rn(__int2float_rn(sum), multiplier), unit = __int_as_float(1);
    // rounded first: a tie goes to the even number, which is not always the even code
    return __float_as_int(fma_of_small(fma_of_small(product, unit, 0.0f), 1.0f, __int_as_float(zero_point + 128)));
}
template <int SMALL>
__device__ __forceinline__ unsigned requantize_four(const int (&sum)[4], float a, float b, float c, float d, int zero_point, int low,
                                                    int high) {
    if constexpr (SMALL == 3)
        return pack_unsigned(requantize_large(sum[0], a, zero_point), requantize_large(sum[1], b, zero_point),
                             requantize_large(sum[2], c, zero_point), requantize_large(sum[3], d, zero_point)) ^ 0x80808080u;
    if constexpr (SMALL > 0) {
        const int p = requantize_small(sum[0], a, zero_point), q = requantize_small(sum[1], b, zero_point);
        const int r = requantize_small(sum[2], c, zero_point), s = requantize_small(sum[3], d, zero_point);
        return pack_saturated(p, q, r, s);
    }
    return pack(requantize(sum[0], a, zero_point, low, high), requantize(sum[1], b, zero_point, low, high),
                requantize(sum[2], c, zero_point, low, high), requantize(sum[3], d, zero_point, low, high));
}
__device__ __forceinline__ int byte_of(unsigned four, int i) { return (int)(four << (24 - 8 * i)) >> 24; }
