// image.h - what a stem reads: a patch of the image, 3 channels a pixel; in shared memory they are 4, the last one 0.
//
//   Weights<A>                the parameters of a block
//   Image<S, Crew>            the patch under a tile, in registers
//     image.load(at, x, spot)     this thread's pairs of pixels
//     image.put(at, x, spot)      into shared memory, as they are: of Fp16 and Tf32x3
//   Image<S, Crew>, measured  of PairOfHalves: in registers, until the block knows how large its numbers are
//     image.measure(at)           the largest magnitude of each warp, in shared memory; then a barrier
//     image.put(at, w)            high and low halves into shared memory, and w.scales.hidden for their sums
//
// Nothing bounds a network's input. So a block measures its patch, and multiplies it by a power of two, which is exact:
//
//     largest magnitude m, 2^e ≤ m < 2^(e + 1)      scale = 2^(14 − e)      2^14 ≤ scale·m < 2^15
//
// So no number of the patch is beyond the end of the halves, 65,504. By pair_of_halves.h, high + low = scale·x but for
// at most 2^-23 of it where |scale·x| ≥ 2^-2, which is so from |x| = 2^-16·m on; and but for at most 2^-25 where it is
// less. Of x itself that is 2^-25 / scale, at most 2^-39·m. A number that is much smaller than the largest one has few
// bits, or none; but what it lacks is at most 2^-39 of a number in the same patch. Other patches have other scales.
//
// The scale, and hidden = 1 / (scale · that of the weights), by which sums are multiplied, must be floats themselves:
//   scale ≤ 2^126                         2^-25 / scale is then less than the last bit that any float has, 2^-149
//   scale · that of the weights ≤ 2^126   less than 2^(14 − e) where all products are below 2^-96. Each of them errs by
//                                         at most 2^-25 · 2^15 / 2^126 = 2^-136; the smallest normal float is 2^-126
//   scale · that of the weights ≥ 2^-127  more than 2^(14 − e) where the largest product is 2^155 or more, beyond the
//                                         end of floats: what is too much for a half becomes infinite, its sums NaN
//
// Infinity and NaN are left out when the block measures. As halves, high of infinity is infinite and low NaN, and both
// are NaN of NaN: what the convolution touches is NaN, as by TF32 numbers, and other numbers keep their scale.
//
// Shared memory: 8 bytes a pixel, the high halves of a row of pixels first. Under a row of taps an output has 4 pixels,
// 16 numbers of k, which are two rows of ldmatrix; those of the next output begin 16 bytes further, so that 8 outputs
// take all banks once. Where 8 outputs go on in the next row, so do the banks, see PATCH_ROW in geometry.h. Where 8
// outputs are every other one (sliding.h), every other pair of pixels comes first, see pair_at.
#pragma once
#include "fused/workspace.h"

template <class A> struct Weights {  // as PyTorch has them, in NHWC: (hidden, C), (hidden, 9), (O, hidden); biases or 0
    const typename A::T *expand, *expand_bias, *depthwise, *depthwise_bias, *project, *project_bias;
    float low[3], high[3];  // what each of the three is clamped to
    typename A::Scales scales;
};

// Two neighbouring pixels of an image are 6 inputs, three times two of them.
template <class T> struct TwoOf { using type = float2; };
template <> struct TwoOf<__half> { using type = unsigned; };

// Pairs `first`, … of a thread, THREADS apart; zeros where there is no image.
template <int N, class S, class Crew, class Two>
__device__ __forceinline__ void load_pixels(Two (&two)[N][3], int first, const Workspace<S, Crew>& at,
                                            const typename S::T* x, const Spot<S>& spot) {
    using G = Geometry<S>;
#pragma unroll
    for (int j = 0; j < N; ++j) {
        const unsigned i = at.thread + (first + j) * S::THREADS, across = i % G::PATCH_PAIRS;
        const unsigned y = 2 * spot.y_first() - 1 + i / G::PATCH_PAIRS, column = 2 * spot.x_first() - 2 + across * 2;
        // a negative one is large, too
        const bool inside = i < G::PATCH_ITEMS && y < S::INPUT_H && column < S::INPUT_W;
        const int pixel = inside ? (spot.n0 * S::INPUT_H + y) * S::INPUT_W + column : 0;
        const Two* const from = (const Two*)(x + pixel * 3);
#pragma unroll
        for (int e = 0; e < 3; ++e) two[j][e] = inside ? __ldg(from + e) : Two();
    }
}

template <class G>
__device__ __forceinline__ void put_pixels(__half* patch, unsigned pair, const unsigned (&v)[3]) {
    store_16(patch + pair / G::PATCH_PAIRS * G::PATCH_ROW + G::pair_at(pair % G::PATCH_PAIRS) * 8,
             make_uint4(v[0], v[1] & 0xffff, v[1] >> 16 | v[2] << 16, v[2] >> 16));
}
template <class G>
__device__ __forceinline__ void put_pixels(float* patch, unsigned pair, const float2 (&v)[3]) {
    float* const to = patch + (pair + pair / G::PATCH_PAIRS * G::PATCH_PAIRS) * 4;
    *(float4*)to = make_float4(v[0].x, v[0].y, v[1].x, 0);
    *(float4*)(to + G::PATCH_ODD) = make_float4(v[1].y, v[2].x, v[2].y, 0);
}

template <class S, class Crew, bool = S::EXPAND == STEM, bool = Geometry<S>::MEASURES> struct Image {};  // of others

template <class S, class Crew> struct Image<S, Crew, true, false> {
    using G = Geometry<S>;
    static constexpr int STEPS = ceil_div(G::PATCH_ITEMS, S::THREADS), AT_ONCE = smaller(STEPS, 6);
    typename TwoOf<typename S::T>::type two[AT_ONCE][3];  // the first ones; of the rest, as many at a time

    __device__ __forceinline__ void load(const Workspace<S, Crew>& at, const typename S::T* x, const Spot<S>& spot) {
        load_pixels(two, 0, at, x, spot);
    }
    __device__ __forceinline__ void put(const Workspace<S, Crew>& at, const typename S::T* x, const Spot<S>& spot) {
#pragma unroll 1
        for (int k = 0; k < STEPS; k += AT_ONCE) {
            if (k > 0) load_pixels(two, k, at, x, spot);
#pragma unroll
            for (int j = 0; j < AT_ONCE; ++j) {
                const int i = at.thread + (k + j) * S::THREADS;
                if (i < G::PATCH_ITEMS) put_pixels<G>(at.x_tile, i, two[j]);
            }
        }
    }
};

template <class S, class Crew> struct Image<S, Crew, true, true> {
    using G = Geometry<S>;
    static constexpr int STEPS = ceil_div(G::PATCH_ITEMS, S::THREADS);
    float2 two[STEPS][3];

    __device__ __forceinline__ void load(const Workspace<S, Crew>& at, const float* x, const Spot<S>& spot) {
        load_pixels(two, 0, at, x, spot);
    }

    // fmaxf leaves NaN out. Where a thread has an infinity it looks again, for what is smaller.
    __device__ __forceinline__ void measure(const Workspace<S, Crew>& at) const {
        float most = largest<false>();
        if (most > LARGEST) most = largest<true>();
        const unsigned of_warp = __reduce_max_sync(0xffffffffu, __float_as_uint(most));  // integers of the same order
        if (at.lane == 0) at.maxima[at.warp] = of_warp;
    }
    template <bool FINITE> __device__ __forceinline__ float largest() const {
        float most = 0;
#pragma unroll
        for (int i = 0; i < STEPS * 3; ++i)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const float magnitude = fabsf(e ? two[i / 3][i % 3].y : two[i / 3][i % 3].x);
                most = fmaxf(most, !FINITE || magnitude <= LARGEST ? magnitude : 0.0f);
            }
        return most;
    }

    __device__ __forceinline__ void put(const Workspace<S, Crew>& at, Weights<PairOfHalves>& w) const {
        const unsigned most = __reduce_max_sync(0xffffffffu, at.maxima[smaller(at.lane, G::WARPS - 1)]);
        // exponents as a float has them, 127 more than they are
        const int of_weights = __float_as_uint(w.scales.hidden) >> 23;  // of 1 / their scale
        const int wanted = 127 + 14 - (int)(most >> 23), at_most = smaller(126, of_weights - 1);
        const int power = larger(smaller(wanted, at_most), of_weights - 254);
        const float scale = __uint_as_float((127 + power) << 23);
        w.scales.hidden = __uint_as_float((of_weights - power) << 23);
#pragma unroll
        for (int j = 0; j < STEPS; ++j) {
            const unsigned i = at.thread + j * S::THREADS;
            unsigned high[4], low[4];
            split_halves(high[0], low[0], two[j][0].x, two[j][0].y, scale);
            split_half(high[1], low[1], two[j][1].x, scale);
            split_halves(high[2], low[2], two[j][1].y, two[j][2].x, scale);
            split_half(high[3], low[3], two[j][2].y, scale);
            float* const to = at.x_tile + i / G::PATCH_PAIRS * G::PATCH_ROW + G::pair_at(i % G::PATCH_PAIRS) * 4;
            if (i < G::PATCH_ITEMS) {
                store_16(to, make_uint4(high[0], high[1], high[2], high[3]));
                store_16(to + G::PATCH_LOW, make_uint4(low[0], low[1], low[2], low[3]));
            }
        }
    }
};
