// block_int8.h - what the kernels of int8 blocks have in common: how a block is compiled, and sizes that are rounded up.
//
//   SMALL_PROJECT    how project's sums are requantized, see requantize.h
//   ODD              whether the zero point of a tensor that is requantized in one step may be odd, see one_step.h
//   ONE_STEP         whether one fma requantizes all hidden channels
//   RESIDUAL         whether a residual is added
//   image_t          what a stem reads: signed char, or real numbers that become codes, float or __half
//   ceil_div(a, b), ceil_to(a, b)    a / b rounded up; the next multiple of b
//   words_of(words, plane, lane)     a lane's words of a plane, which lie by fours of all lanes; a multiple of four
//   ends_of(end, multipliers, offsets)          the ends of a lane's four channels, of what lies in memory
//   codes<EXACT>(a, b, c, d, end of a and b, end of c and d)    four sums as codes + 128, packed
//   first_output(pair, t)            of the pair-th 16 outputs a lane's first: it has 4t … 4t + 3, of a last 8 2t and 2t + 1
//   codes_of_y<EXACT>(ends, pair, t, a, b, i)   its codes, of rows g (i = 0) or g + 8 of the sums of both eights. ends:
//                                    multipliers of all outputs, then offsets
#pragma once
#include "epilogue_int8.h"
#include "grid.h"
#include "one_step.h"

#ifndef SMALL_PROJECT
#define SMALL_PROJECT 0
#endif
#ifndef ODD
#define ODD 1
#endif
#ifndef ONE_STEP
#define ONE_STEP 0
#endif
#ifndef RESIDUAL
#define RESIDUAL 1
#endif
#ifndef image_t
#define image_t signed char
#endif

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
__host__ __device__ constexpr int ceil_to(int a, int b) { return ceil_div(a, b) * b; }

template <int N> __device__ __forceinline__ void words_of(unsigned (&words)[N], const uint4* plane, int lane) {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        const uint4 four = __ldg(plane + i * 8 + lane);
        words[i] = four.x, words[i + 1] = four.y, words[i + 2] = four.z, words[i + 3] = four.w;
    }
}
// Offsets lie the other way round: an fma of three even registers, or three odd ones, takes a cycle more.
__device__ __forceinline__ void ends_of(End (&end)[2], uint4 m, uint4 o) {
    end[0] = {{__uint_as_float(m.x), __uint_as_float(m.y)}, {__uint_as_float(o.y), __uint_as_float(o.x)}};
    end[1] = {{__uint_as_float(m.z), __uint_as_float(m.w)}, {__uint_as_float(o.w), __uint_as_float(o.z)}};
}
template <bool EXACT>
__device__ __forceinline__ unsigned codes(int a, int b, int c, int d, const End& ab, const End& cd) {
    return pack_unsigned(code_of<EXACT, ODD>(a, ab.multiplier[0], ab.offset[0]),
                         code_of<EXACT, ODD>(b, ab.multiplier[1], ab.offset[1]),
                         code_of<EXACT, ODD>(c, cd.multiplier[0], cd.offset[0]),
                         code_of<EXACT, ODD>(d, cd.multiplier[1], cd.offset[1]));
}
#ifdef OUTPUTS  // of a kernel of one block
__device__ __forceinline__ int first_output(int pair, int t) { return 16 * pair + (16 * pair + 8 < OUTPUTS ? 4 : 2) * t; }
template <bool EXACT>
__device__ __forceinline__ unsigned codes_of_y(const float* ends, int pair, int t, const int (&a)[4], const int (&b)[4],
                                               int i) {
    const bool alone = 16 * pair + 8 >= OUTPUTS;  // of the last 8 outputs there is no second half
    const float* const multiplier = ends + first_output(pair, t);
    const float* const offset = multiplier + OUTPUTS;
    const End first = {{multiplier[0], multiplier[1]}, {offset[1], offset[0]}};
    const End second = alone ? first : End{{multiplier[2], multiplier[3]}, {offset[3], offset[2]}};
    return codes<EXACT>(a[2 * i], a[2 * i + 1], b[2 * i], b[2 * i + 1], first, second) ^ 0x80808080u;
}
#endif
