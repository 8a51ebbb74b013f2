// project.h - y = clamp(dw · weight + bias + residual), the sums in registers from the first slice to the last.
//
//   Sums<S>                                   of a thread: MT3 × PAIRS3 pairs of tiles of mma
//   get_bias(bias, at, w)                     of a thread's channels; asked for before anything else is waited for
//   begin(sums, bias, at, residual, spot)     bias, and a residual that is read from global memory
//   project(sums, at, slice, w)               sums += dw · weight, over a slice of the weights w, in shared memory
//   add_x(sums, at, w)                        a residual that is x itself: it lies in shared memory
//   write(v, to, w), write_tile(sums, …)      clamped, 4 neighbouring channels of a pixel at a time
//
// A block's WARPS share the tiles of 16 pixels × 16 channels, WARPS_N3 of them side by side along the channels. Where a
// warp has one tile less than others it takes the last one again, whose sums nobody reads, and not a branch.
#pragma once
#include "fused/load.h"

template <class S> using Sums = float[Geometry<S>::MT3][Geometry<S>::PAIRS3][2][4];

template <class S> using ProjectBias = float[Geometry<S>::PAIRS3][4];

template <class S, class Crew>
__device__ __forceinline__ void get_bias(ProjectBias<S>& bias, const Workspace<S, Crew>& at,
                                         const Weights<typename S::Arithmetic>& w) {
#pragma unroll
    for (int j = 0; j < Geometry<S>::PAIRS3; ++j)
        if (at.rank == 0 && w.project_bias && at.channel_of(j) < S::O) load(bias[j], w.project_bias + at.channel_of(j));
}

template <class S, class Crew>
__device__ __forceinline__ void begin(Sums<S>& acc, const ProjectBias<S>& bias, const Workspace<S, Crew>& at,
                                      const typename S::T* residual, const Spot<S>& spot) {
    using G = Geometry<S>;
    const typename S::T* const residual_tile = residual + spot.first_out();
#pragma unroll
    for (int i = 0; i < 2 * G::MT3; ++i) {
        const bool added = S::READS_RESIDUAL && at.rank == 0 && spot.is_out(at.pixel_of(i));
        const unsigned place = G::place_out(at.pixel_of(i));
#pragma unroll
        for (int j = 0; j < G::PAIRS3; ++j) {
            float more[4] = {};
            if (added && (S::O % 16 == 0 || at.channel_of(j) < S::O))
                get(more, residual_tile + (place + at.channel_of(j)));
#pragma unroll
            for (int e = 0; e < 4; ++e) acc[i / 2][j][e / 2][i % 2 * 2 + e % 2] = bias[j][e] + more[e];
        }
    }
}

template <class S, class Crew>
__device__ __forceinline__ void project(Sums<S>& acc, const Workspace<S, Crew>& at, const typename S::T* slice,
                                        const Weights<typename S::Arithmetic>& w) {
    using G = Geometry<S>;
    using A = typename G::A;
    using T = typename S::T;
    constexpr int MT3 = G::MT3, PAIRS3 = G::PAIRS3, D_ROW = G::D_ROW, CHUNK = smaller(A::SLICE_TERMS, S::SLICE);
    const int warp_m = at.warp / S::WARPS_N3, warp_n = at.warp % S::WARPS_N3;
    const T *a_row[MT3], *b_row[PAIRS3];
#pragma unroll
    for (int i = 0; i < MT3; ++i) {
        int m = warp_m + i * G::M3;
        if (G::M_OUT % G::M3 && i == MT3 - 1) m = smaller(m, G::M_OUT - 1);
        a_row[i] = at.dw + (m * 16 + at.row_of_a()) * D_ROW + at.channel_of_a();
    }
#pragma unroll
    for (int j = 0; j < PAIRS3; ++j) {
        int n = warp_n + j * S::WARPS_N3;
        if (G::PAIRS % S::WARPS_N3 && j == PAIRS3 - 1) n = smaller(n, G::PAIRS - 1);
        b_row[j] = slice + G::W3 + (n * 16 + at.row_of_b()) * D_ROW + at.channel_of_b();
    }
#pragma unroll
    for (int k0 = 0; k0 < S::SLICE; k0 += CHUNK) {
        float part[A::OWN_SUMS ? MT3 : 1][A::OWN_SUMS ? PAIRS3 : 1][2][4] = {};
#pragma unroll
        for (int k = k0; k < smaller(k0 + CHUNK, S::SLICE); k += A::K) {
            typename A::Columns b[PAIRS3];
#pragma unroll
            for (int j = 0; j < PAIRS3; ++j) b[j].load(b_row[j] + k);
#pragma unroll
            for (int i = 0; i < MT3; ++i) {
                typename A::Rows a;
                a.load(a_row[i] + k);
                a.split();
#pragma unroll
                for (int j = 0; j < PAIRS3; ++j) {
                    if constexpr (A::OWN_SUMS) b[j].multiply(part[i][j], a);
                    else b[j].multiply(acc[i][j], a);
                }
            }
        }
        if constexpr (A::OWN_SUMS) add<A>(acc, part, w.scales.sums);
    }
}

// Of Fp16 it is one more product, with ones on the diagonal.
template <class S, class Crew>
__device__ __forceinline__ void add_x(Sums<S>& acc, const Workspace<S, Crew>& at,
                                      const Weights<typename S::Arithmetic>& w) {
    using G = Geometry<S>;
    using T = typename S::T;
    if constexpr (G::FP16) {
        // Column g of tile i is channel 4·(g / 2) + 2·i + g % 2, see of_tiles; rows 2t, 2t + 1, then 8 on.
        Fp16::Columns ones;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int channel = at.g / 2 * 4 + i / 2 * 2 + at.g % 2 - i % 2 * 8;
            ones.big[i] = channel == 2 * at.t ? 0x3c00u : channel == 2 * at.t + 1 ? 0x3c000000u : 0u;
        }
#pragma unroll
        for (int i = 0; i < G::MT3; ++i) {
            const unsigned pixel = (at.warp / S::WARPS_N3 + i * G::M3) * 16 + at.row_of_a();
            const T* const from = at.x_tile + G::pixel_in(smaller(pixel, G::PIXELS_OUT - 1)) * G::X_ROW +
                                  at.channel_of_a();
#pragma unroll
            for (int j = 0; j < G::PAIRS3; ++j) {
                Fp16::Rows a;
                a.load(from + smaller(at.warp % S::WARPS_N3 + j * S::WARPS_N3, G::PAIRS - 1) * 16);
                ones.multiply(acc[i][j], a);
            }
        }
    } else
#pragma unroll
        for (int i = 0; i < 2 * G::MT3 * G::PAIRS3; ++i) {
            const int row = i / G::PAIRS3, j = i % G::PAIRS3;
            float more[4] = {};
            if (at.channel_of(j) < S::O) {
                const unsigned pixel = G::pixel_in(smaller(at.pixel_of(row), G::PIXELS_OUT - 1));
                G::A::get_x(more, at.x_tile + pixel * G::X_ROW, at.channel_of(j), w.scales);
            }
#pragma unroll
            for (int e = 0; e < 4; ++e) acc[row / 2][j][e / 2][row % 2 * 2 + e % 2] += more[e];
        }
}

template <class A>
__device__ __forceinline__ void write(float (&v)[4], typename A::T* to, const Weights<A>& w) {
#pragma unroll
    for (int e = 0; e < 4; ++e) v[e] = bounded(v[e], w.low[2], w.high[2]);
    store(to, v);
}

template <class S, class Crew>
__device__ __forceinline__ void write_tile(const Sums<S>& acc, const Workspace<S, Crew>& at,
                                           const Weights<typename S::Arithmetic>& w, typename S::T* y_tile,
                                           const Spot<S>& spot, bool busy) {
    using G = Geometry<S>;
    Workspace<S, Crew> mine = at;  // addresses are not kept from tile to tile: registers are few
    if (S::LOOPS) mine.g = here(at.g), mine.t = here(at.t);
#pragma unroll
    for (int i = 0; busy && i < 2 * G::MT3; ++i) {
        const bool there = spot.is_out(mine.pixel_of(i));
        const unsigned place = G::place_out(mine.pixel_of(i));
#pragma unroll
        for (int j = 0; j < G::PAIRS3; ++j) {
            const float(&d)[2][4] = acc[i / 2][j];
            float v[4] = {d[0][i % 2 * 2], d[0][i % 2 * 2 + 1], d[1][i % 2 * 2], d[1][i % 2 * 2 + 1]};
            if (there && mine.channel_of(j) < S::O) write(v, y_tile + (place + mine.channel_of(j)), w);
        }
    }
}
