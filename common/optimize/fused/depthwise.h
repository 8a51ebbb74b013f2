// depthwise.h - dw = clamp(3×3 of hidden + bias): a warp convolves the channels that it has expanded.
//
//   depthwise(at, slice, w)     slice: of the weights w, in shared memory
//
// What walks down STRIP outputs of a column is a lane, of V channels; or, of halves (V = 0), a warp, of 16 columns and
// channels: a tap is a product with a diagonal matrix, of which tensor cores do 8 times too much and yet all at once,
// without turning halves into floats: a third of the instructions.
//
//     hidden rows y      0   1   2   3   4   …        each row is read once, under its three columns of taps, and added
//     outputs            └─0─────┘                    to the outputs that need it
//                            └─1─────┘                stride 1
#pragma once
#include "fused/diagonal.h"
#include "fused/load.h"

template <class S, class Crew>
__device__ __forceinline__ void depthwise_lanes(const Workspace<S, Crew>& at, const typename S::T* slice,
                                                const Weights<typename S::Arithmetic>& w) {
    using G = Geometry<S>;
    using T = typename S::T;
    constexpr int V = G::V, GROUPS = 16 / V;
    constexpr int ROUNDS = ceil_div(G::COLUMNS, 32 / GROUPS);  // of a plane; the warps of the same channels share all
#pragma unroll 1
    for (int item = at.warp_p; item < G::PLANES * ROUNDS; item += S::WARPS_P) {
        const int j = item / ROUNDS, i = item % ROUNDS * (32 / GROUPS) + at.lane / GROUPS;
        const int c = at.lane % GROUPS * V, channel = (at.warp_c * G::PLANES + j) * 16 + c;
        float taps[9][V], bias[V];
#pragma unroll
        for (int e = 0; e < V; ++e)
#pragma unroll
            for (int tap = 0; tap < 9; ++tap) taps[tap][e] = (float)slice[G::W2 + (channel + e) * 9 + tap];
        get(bias, slice + G::B2 + channel);
        const T* const plane = at.hidden + (at.warp_c * G::PLANES + j) * G::PLANE + c / 8 * G::HALF_PLANE + c % 8;
        if (i < G::COLUMNS) {
            unsigned first, to;
            G::column(i, first, to);
            const T* const from = plane + first * 8;
            float acc[S::STRIP][V];
#pragma unroll
            for (int y = 0; y < (S::STRIP - 1) * S::STRIDE + 3; ++y) {
#pragma unroll
                for (int kx = 0; kx < 3; ++kx) {
                    float v[V];
                    get(v, from + (y * G::IN_W + G::in_row(kx)) * 8);
#pragma unroll
                    for (int ky = 0; ky < 3; ++ky) {
                        const int r = (y - ky) / S::STRIDE;  // the output that needs this row under its row ky of taps
                        if (y >= ky && r * S::STRIDE == y - ky && r < S::STRIP)
#pragma unroll
                            for (int e = 0; e < V; ++e)
                                acc[r][e] = fmaf(v[e], taps[ky * 3 + kx][e], ky + kx == 0 ? bias[e] : acc[r][e]);
                    }
                }
                const int r = (y - 2) / S::STRIDE;
                if (y >= 2 && r * S::STRIDE == y - 2) {
#pragma unroll
                    for (int e = 0; e < V; ++e) acc[r][e] = bounded(acc[r][e], w.low[1], w.high[1]);
                    G::A::put_dw(at.dw + (to + r * S::TILE_W) * G::D_ROW, channel, acc[r], w.scales);
                }
            }
        }
    }
}

template <class S, class Crew>
__device__ __forceinline__ void depthwise_mma(const Workspace<S, Crew>& at, const __half* slice,
                                              const Weights<Fp16>& w) {
    using G = Geometry<S>;
    constexpr int ROUNDS = ceil_div(G::COLUMNS, 16), D_ROW = G::D_ROW;
#pragma unroll 1
    for (int item = at.warp_p; item < G::PLANES * ROUNDS; item += S::WARPS_P) {
        const int j = item / ROUNDS, i = item % ROUNDS * 16 + at.lane % 16, channel = (at.warp_c * G::PLANES + j) * 16;
        unsigned diagonal[2][9];
        float bias[2][4];
        load_diagonals(diagonal, at.g, at.t, slice + G::W2 + channel * 9);
        load_bias(bias, at, slice + G::B2 + channel);
        unsigned first, to;
        G::column(smaller(i, G::COLUMNS - 1), first, to);
        const bool mine = G::COLUMNS % 16 == 0 || i < G::COLUMNS;
        __half* const row = mine ? at.dw + to * D_ROW + channel + at.lane / 16 * 8 : at.spare;
        const int down = mine ? S::TILE_W * D_ROW : 0;
        // a product takes 8 channels under two taps side by side; under the third, 8 channels at a time
        const __half* const from = at.hidden + (at.warp_c * G::PLANES + j) * G::PLANE + first * 8;
        const __half* const of_two = from + at.lane / 16 * G::ODD * 8;
        const __half* const of_third = from + G::in_row(2) * 8 + at.lane / 16 * G::HALF_PLANE;
        float acc[S::STRIP][2][4];
#pragma unroll
        for (int y = 0; y < (S::STRIP - 1) * S::STRIDE + 3; ++y) {
            unsigned two[2][4], third[4];
            ldmatrix_x4(two[0], of_two + y * G::IN_W * 8);
            ldmatrix_x4(two[1], of_two + y * G::IN_W * 8 + G::HALF_PLANE);
            ldmatrix_x4(third, of_third + y * G::IN_W * 8);
            add_row<S::STRIDE>(acc, y, two, third, diagonal, bias);
            const int r = (y - 2) / S::STRIDE;
            if (y >= 2 && r * S::STRIDE == y - 2) store_bounded(row + r * down, acc[r], w.low[1], w.high[1]);
        }
    }
}

template <class S, class Crew>
__device__ __forceinline__ void depthwise(const Workspace<S, Crew>& at, const typename S::T* slice,
                                          const Weights<typename S::Arithmetic>& w) {
    if constexpr (S::VECTOR == 0) depthwise_mma(at, slice, w);
    else depthwise_lanes(at, slice, w);
}
