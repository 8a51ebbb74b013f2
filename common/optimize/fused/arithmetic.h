// arithmetic.h - what a product is: of halves, or of floats as three products of TF32 numbers.
//
//   Fp16      halves in memory, one product of tensor cores, a sum in float
//   Tf32x3    floats in memory, three products of their parts (tf32x3.h), which are taken apart at each use
//
//   A::T                               what is in memory
//   A::K                               channels of one mma
//   A::OWN_SUMS                        tensor cores cut sums off: theirs begin at 0, and an FADD adds them to the rest
//   A::TERMS, A::SLICE_TERMS           how many products such a sum has at most, of expand and of project
//   A::Rows a; a.load(row); a.split()  a's fragment, 16 pixels × K channels, ready for many products
//   A::Columns b; b.load(row)          b's fragments, K channels of two neighbouring tiles of 8 columns
//   b.multiply(d, a)                   d += a·b, of both tiles
//   b.multiply(d, a, c)                d = a·b + c, of halves alone
//
// row: the address that this lane gives to ldmatrix, see `row_of_a` and `row_of_b`.
#pragma once
#include "fused/numbers.h"
#include "tf32x3.h"

struct Fp16 {
    using T = __half;
    static constexpr int K = 16, TERMS = 1 << 20, SLICE_TERMS = TERMS;
    static constexpr bool OWN_SUMS = false;

    struct Rows {
        unsigned big[4];
        __device__ __forceinline__ void load(const T* row) { ldmatrix_x4(big, row); }
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

struct Tf32x3 {
    using T = float;
    static constexpr int K = 8, TERMS = 32, SLICE_TERMS = 1 << 20;
    static constexpr bool OWN_SUMS = true;

    struct Rows {
        unsigned big[4], small[4];
        __device__ __forceinline__ void load(const T* row) { ldmatrix_x4(big, row); }
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
    };
};

template <class T> struct Default { using Arithmetic = Tf32x3; };
template <> struct Default<__half> { using Arithmetic = Fp16; };

// sums += parts, of M × N pairs of tiles
template <int M, int N>
__device__ __forceinline__ void add(float (&sum)[M][N][2][4], const float (&part)[M][N][2][4]) {
#pragma unroll
    for (int i = 0; i < M * N * 8; ++i) {
        const int m = i / 8 / N, n = i / 8 % N, tile = i / 4 % 2, e = i % 4;
        sum[m][n][tile][e] += part[m][n][tile][e];
    }
}
