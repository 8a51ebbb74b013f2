// epilogue_int8.h - the end of an int8 product: int32 sums of N neighbouring outputs of a row become int8, or floats.
//
//   Output to = {zero_point, low, high, scale_a, scale_b, shift, offset};      as in requantize.h; the last four: of a residual
//   finish<WHOLE>(y, sum, multiplier, residual, left, to)     y[0…N) from as many sums, of which `left` are there. y: signed
//                                       char, or float: then sum · multiplier, without residual. residual: as y, or null
//   finish_whole<SMALL>(y, sum, multiplier, residual, left, to)     the same for 4 or 8 outputs of whole pieces; sums begin at
//                                       begin<SMALL>, see requantize.h; with a residual SMALL is of the product, and
//                                       2 or 3 if also the sum is clamped to −128 … 127: add_four
//   finish<WHOLE, true>, finish_whole<SMALL, true>      with a residual that lies in shared memory
//   get_row<WHOLE>(v, from, left)       N neighbouring int or float; zeros where there are none
//
// With a residual both roundings take place that the convolution and the addition make one after the other: to int8 in full
// range, then clamp(round(a · scale_a + (b · scale_b + shift))): a is the product and b the residual, or with
// -DRESIDUAL_FIRST=1 a is the residual, because the order of a and b changes the rounding of a float sum. WHOLE:
// rows consist of whole pieces, which begin at multiples
// of N elements, 16 bytes at most.
//
//   ONE_SUM      0, or how add_four has the bits of that in two fma, see one_sum.py: 1: the residual's byte is q, 2: the
//                product's. Then scale_a and scale_b are its factors a and b, shift the rest, and offset the fraction
#pragma once
#include "requantize.h"

#ifndef RESIDUAL_FIRST
#define RESIDUAL_FIRST 0
#endif
#ifndef ONE_SUM
#define ONE_SUM 0
#endif

struct Output {
    int zero_point, low, high;
    float scale_a, scale_b, shift;
    int offset;
};

template <int N> struct Bytes;
template <> struct Bytes<4> { using type = unsigned; };
template <> struct Bytes<8> { using type = uint2; };
template <> struct Bytes<16> { using type = uint4; };

template <bool WHOLE, int N, class T> __device__ __forceinline__ void get_row(T (&v)[N], const T* from, int left) {
#pragma unroll
    for (int e = 0; e < N; e += 4) {
        if constexpr (WHOLE) {
            const int4 four = left > e ? __ldg((const int4*)(from + e)) : make_int4(0, 0, 0, 0);
            v[e] = *(const T*)&four.x, v[e + 1] = *(const T*)&four.y, v[e + 2] = *(const T*)&four.z, v[e + 3] = *(const T*)&four.w;
        } else
            for (int i = e; i < e + 4; ++i) v[i] = i < left ? from[i] : (T)0;
    }
}

// Bytes of a residual, from shared memory (HERE) or from global memory.
template <bool HERE, int N> __device__ __forceinline__ typename Bytes<N>::type bytes_of(const signed char* residual) {
    const typename Bytes<N>::type* const from = (const typename Bytes<N>::type*)residual;
    if constexpr (HERE) return *from;
    else return __ldg(from);
}

template <bool WHOLE, bool HERE = false, int N>
__device__ __forceinline__ void finish(signed char* y, const int (&sum)[N], const float (&multiplier)[N], const signed char* residual,
                                       int left, const Output& to) {
    if (left <= 0) return;
    int v[N];
    if (residual) {
        union { typename Bytes<N>::type all; unsigned words[N / 4]; } more;
        if constexpr (WHOLE) more.all = bytes_of<HERE, N>(residual);
#pragma unroll
        for (int e = 0; e < N; ++e) {
            const int b = WHOLE ? byte_of(more.words[e / 4], e % 4) : e < left ? residual[e] : 0;
            const int a = requantize(sum[e], multiplier[e], to.zero_point, -128, 127);
            v[e] = RESIDUAL_FIRST ? add_scaled(b, a, to.scale_a, to.scale_b, to.shift, to.offset, to.low, to.high)
                                  : add_scaled(a, b, to.scale_a, to.scale_b, to.shift, to.offset, to.low, to.high);
        }
    } else
#pragma unroll
        for (int e = 0; e < N; ++e) v[e] = requantize(sum[e], multiplier[e], to.zero_point, to.low, to.high);
    if constexpr (WHOLE) {
        union { typename Bytes<N>::type all; unsigned words[N / 4]; } out;
#pragma unroll
        for (int e = 0; e < N; e += 4) out.words[e / 4] = pack(v[e], v[e + 1], v[e + 2], v[e + 3]);
        *(typename Bytes<N>::type*)y = out.all;
    } else
        for (int e = 0; e < N; ++e)
            if (e < left) y[e] = (signed char)v[e];
}
// add_scaled of four codes each, or of the lower N, clamped to −128 … 127. Rounding is to units of 2^-149, in which a
// float's bits are an integer. Without ONE_SUM bytes become floats beside 2^23.
template <int N, int HOW = ONE_SUM, bool FIRST = RESIDUAL_FIRST>
__device__ __forceinline__ unsigned add_four(unsigned a, unsigned b, const Output& to) {
    int v[4] = {};
    if constexpr (HOW > 0) {
        const unsigned p = (HOW == 1 ? a : b) ^ 0x80808080u;
        const unsigned q = (HOW == 1 ? b : a) ^ (to.scale_b < 0 ? 0x7f7f7f7fu : 0x80808080u);
#pragma unroll
        for (int e = 0; e < N; ++e) {
            const float of_p = __int_as_float(__byte_perm(p, 0, 0x4440 + e));
            const float of_q = __int_as_float(__byte_perm(q, to.offset, 0x6054 + (e << 8)));
            v[e] = __float_as_int(fma_of_small(fma_of_small(of_p, to.scale_a, of_q), to.scale_b, to.shift));
        }
        return pack_unsigned(v[0], v[1], v[2], v[3]) ^ 0x80808080u;
    }
    const float below = (float)to.offset - 8388736.0f;  // 2^23 + 128
#pragma unroll
    for (int e = 0; e < N; ++e) {
        const float of_a = __fadd_rn(__int_as_float(__byte_perm(a ^ 0x80808080u, 0x4b000000u, 0x7440 + e)), below);
        const float of_b = __fadd_rn(__int_as_float(__byte_perm(b ^ 0x80808080u, 0x4b000000u, 0x7440 + e)), below);
        const float x = FIRST ? of_b : of_a, rest = __fmaf_rn(FIRST ? of_a : of_b, to.scale_b, to.shift);
        v[e] = __float_as_int(fma_of_small(__fmaf_rn(x, to.scale_a, rest), __int_as_float(1), __int_as_float(128 - to.offset)));
    }
    return pack_unsigned(v[0], v[1], v[2], v[3]) ^ 0x80808080u;
}
// Four codes of a product and four of a residual, or the lower N, added. FULL: the sum is clamped to −128 … 127.
template <bool FULL, int N = 4, int HOW = ONE_SUM, bool FIRST = RESIDUAL_FIRST>
__device__ __forceinline__ unsigned add_words(unsigned product, unsigned residual, const Output& to) {
    if constexpr (FULL) return add_four<N, HOW, FIRST>(product, residual, to);
    int v[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        const int a = byte_of(product, e), b = byte_of(residual, e);
        v[e] = FIRST ? add_scaled(b, a, to.scale_a, to.scale_b, to.shift, to.offset, to.low, to.high)
                              : add_scaled(a, b, to.scale_a, to.scale_b, to.shift, to.offset, to.low, to.high);
    }
    return pack(v[0], v[1], v[2], v[3]);
}
template <int SMALL, bool HERE = false, int N>
__device__ __forceinline__ void finish_whole(signed char* y, const int (&sum)[N], const float (&m)[N], const signed char* residual, int left,
                                             const Output& to) {
    if constexpr (SMALL == 0) return finish<true, HERE>(y, sum, m, residual, left, to);
    if (left <= 0) return;
    union Words { typename Bytes<N>::type all; unsigned words[N / 4]; } out, more;
#pragma unroll
    for (int e = 0; e < N; e += 4) {
        const int four[4] = {sum[e], sum[e + 1], sum[e + 2], sum[e + 3]};
        out.words[e / 4] = requantize_four<SMALL>(four, m[e], m[e + 1], m[e + 2], m[e + 3], to.zero_point, -128, 127);
    }
    if (residual) {
        more.all = bytes_of<HERE, N>(residual);
#pragma unroll
        for (int i = 0; i < N / 4; ++i) out.words[i] = add_words<(SMALL >= 2)>(out.words[i], more.words[i], to);
    }
    *(typename Bytes<N>::type*)y = out.all;
}
template <bool WHOLE, int N>
__device__ __forceinline__ void finish(float* y, const int (&sum)[N], const float (&multiplier)[N], const signed char*, int left,
                                       const Output&) {
#pragma unroll
    for (int e = 0; e < N; ++e)
        if (e < left) y[e] = __fmul_rn(__int2float_rn(sum[e]), multiplier[e]);
}
