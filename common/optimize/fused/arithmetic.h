// arithmetic.h - what a product is: of halves, or of floats as three products of TF32 numbers or of halves.
//
//   Fp16            halves in memory, one product of tensor cores, a sum in float
//   Tf32x3          floats in memory, three products of their parts (tf32x3.h), which are taken apart at each use
//   PairOfHalves    floats in memory, three products of halves (pair_of_halves.h). Each number is taken apart once: the
//                   weights on the host, x when its tile has come, dw when it is stored. 8 neighbouring channels are 8
//                   high halves, then 8 low ones, in the place of the floats. Needs bounds on x and on dw; a stem
//                   measures what it reads (image.h)
//
//   A::T                               what is in memory
//   A::K, A::PIECE                     channels of one mma; those that a thread fetches of x at a time
//   A::OWN_SUMS                        sums of TERMS products begin at 0, and `add` takes them to the rest
//   A::TERMS, A::SLICE_TERMS           how many products such a sum has at most, of expand and of project
//   A::Rows a; a.load(row, low); a.split()    a's fragment, 16 pixels × K channels, ready for many products; low: where
//                                      the low halves of a row lie, in floats from the high ones, of PairOfHalves
//   A::Columns b; b.load(row)          b's fragments, K channels of two neighbouring tiles of 8 columns
//   b.multiply(d, a)                   d += a·b, of both tiles
//   b.multiply(d, a, c)                d = a·b + c, without OWN_SUMS
//   A::Scales                          the powers of two that numbers are multiplied by, of PairOfHalves
//   A::add(sum, part, unscale)         sum += part · unscale, which is 1 but for PairOfHalves
//   A::put_dw, A::get_x                V channels of a pixel of dw stored, 4 of x read back
//
// row: the address that this lane gives to ldmatrix, see `row_of_a` and `row_of_b`.
#pragma once
#include "fused/numbers.h"
#include "fused/scales.h"
#include "pair_of_halves.h"
#include "tf32x3.h"

// Neighbouring elements of shared memory, 2 or a multiple of 4, as floats.
template <int N> __device__ __forceinline__ void get(float (&v)[N], const float* from) {
#pragma unroll
    for (int e = 0; e < N; e += 4)
        if constexpr (N == 2) {
            const float2 two = *(const float2*)from;
            v[0] = two.x, v[1] = two.y;
        } else {
            const float4 four = *(const float4*)(from + e);
            v[e] = four.x, v[e + 1] = four.y, v[e + 2] = four.z, v[e + 3] = four.w;
        }
}
template <int N> __device__ __forceinline__ void get(float (&v)[N], const __half* from) {
#pragma unroll
    for (int e = 0; e < N; e += 4)
        if constexpr (N == 2) unpack(v[0], v[1], *(const unsigned*)from);
        else {
            const uint2 four = *(const uint2*)(from + e);
            unpack(v[e], v[e + 1], four.x), unpack(v[e + 2], v[e + 3], four.y);
        }
}

template <class Number> struct Unscaled {  // what Fp16 and Tf32x3 have in common
    struct Scales {
        static constexpr float hidden = 1, sums = 1;
    };
    __device__ __forceinline__ static float add(float sum, float part, float) { return sum + part; }
    template <int V>
    __device__ __forceinline__ static void put_dw(Number* row, int channel, const float (&v)[V], const Scales&) {
        store(row + channel, v);
    }
    __device__ __forceinline__ static void get_x(float (&v)[4], const Number* row, int channel, const Scales&) {
        get(v, row + channel);
    }
};

struct Fp16 : Unscaled<__half> {
    using T = __half;
    static constexpr int K = 16, PIECE = 8, TERMS = 1 << 20, SLICE_TERMS = TERMS;
    static constexpr bool OWN_SUMS = false;

    struct Rows {
        unsigned big[4];
        __device__ __forceinline__ void load(const T* row, int = 0) { ldmatrix_x4(big, row); }
        __device__ __forceinline__ void split() {}
    };
    struct Columns {
        unsigned big[4];
        __device__ __forceinline__ void load(const T* row) { ldmatrix_x4(big, row); }
        __device__ __forceinline__ void multiply(float (&d)[2][4], const Rows& a) const {
#pragma unroll
            for (int tile = 0; tile < 2; ++tile) mma_f16(d[tile], a.big, {big[2 * tile], big[2 * tile + 1]});
        }
        __device__ __forceinline__ void multiply(float (&d)[2][4], const Rows& a, const float (&c)[2][4]) const {
#pragma unroll
            for (int tile = 0; tile < 2; ++tile) mma_f16(d[tile], a.big, {big[2 * tile], big[2 * tile + 1]}, c[tile]);
        }
    };
};

struct Tf32x3 : Unscaled<float> {
    using T = float;
    static constexpr int K = 8, PIECE = 4, TERMS = 1 << 20, SLICE_TERMS = TERMS;
    static constexpr bool OWN_SUMS = false;  // mma_tf32x3 adds each sum of 8 terms by FADD

    struct Rows {
        unsigned big[4], small[4];
        __device__ __forceinline__ void load(const T* row, int = 0) { ldmatrix_x4(big, row); }
        __device__ __forceinline__ void split() { ::split(big, small); }
    };
    struct Columns {
        unsigned big[4], small[4];
        __device__ __forceinline__ void load(const T* row) {
            ldmatrix_x4(big, row);
            ::split(big, small);
        }
        __device__ __forceinline__ void multiply(float (&d)[2][4], const Rows& a) const {
#pragma unroll
            for (int tile = 0; tile < 2; ++tile)
                mma_tf32x3(d[tile], a.big, a.small, {big[2 * tile], big[2 * tile + 1]},
                           {small[2 * tile], small[2 * tile + 1]});
        }
        __device__ __forceinline__ void multiply(float (&d)[2][4], const Rows& a, const float (&c)[2][4]) const {
#pragma unroll
            for (int i = 0; i < 8; ++i) d[i / 4][i % 4] = c[i / 4][i % 4];
            multiply(d, a);
        }
    };
};

struct PairOfHalves {
    using T = float;
    static constexpr int K = 16, PIECE = 8, TERMS = 32, SLICE_TERMS = 32;
    static constexpr bool OWN_SUMS = true;
    using Scales = PairScales;
    __device__ __forceinline__ static float add(float sum, float part, float unscale) {
        return fmaf(part, unscale, sum);
    }
    template <int V>
    __device__ __forceinline__ static void put_dw(float* row, int channel, const float (&v)[V], const Scales& scales) {
        unsigned high[V / 2], low[V / 2];
        split_halves(high, low, v, scales.dw);
        float* const group = row + channel / 8 * 8 + channel % 8 / 2;
        if constexpr (V == 2) *(unsigned*)group = high[0], *(unsigned*)(group + 4) = low[0];
        else *(uint2*)group = make_uint2(high[0], high[1]), *(uint2*)(group + 4) = make_uint2(low[0], low[1]);
    }
    __device__ __forceinline__ static void get_x(float (&v)[4], const float* row, int channel, const Scales& scales) {
        const float* const group = row + channel / 8 * 8 + channel % 8 / 2;
        float low[4];
        get(v, (const __half*)group), get(low, (const __half*)(group + 4));
#pragma unroll
        for (int e = 0; e < 4; ++e) v[e] = (v[e] + low[e]) * scales.x_back;
    }

    struct Rows {
        unsigned high[4], low[4];
        __device__ __forceinline__ void load(const T* row, int to_low = 4) {
            ldmatrix_x4(high, row), ldmatrix_x4(low, row + to_low);
        }
        __device__ __forceinline__ void split() {}
    };
    struct Columns {
        unsigned high[4], low[4];
        __device__ __forceinline__ void load(const T* row) { ldmatrix_x4(high, row), ldmatrix_x4(low, row + 4); }
        __device__ __forceinline__ void multiply(float (&d)[2][4], const Rows& a) const {
#pragma unroll
            for (int tile = 0; tile < 2; ++tile)
                mma_halves(d[tile], a.high, a.low, {high[2 * tile], high[2 * tile + 1]},
                           {low[2 * tile], low[2 * tile + 1]});
        }
    };
};

template <class T> struct Default { using Arithmetic = Tf32x3; };
template <> struct Default<__half> { using Arithmetic = Fp16; };

// sums += parts · unscale, of M × N pairs of tiles
template <class A, int M, int N>
__device__ __forceinline__ void add(float (&sum)[M][N][2][4], const float (&part)[M][N][2][4], float unscale) {
#pragma unroll
    for (int i = 0; i < M * N * 8; ++i) {
        float& s = sum[i / 8 / N][i / 8 % N][i / 4 % 2][i % 4];
        s = A::add(s, part[i / 8 / N][i / 8 % N][i / 4 % 2][i % 4], unscale);
    }
}
