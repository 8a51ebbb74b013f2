// sliding.h - expand and depthwise in one go: rows of hidden channels slide through registers.
//
//   sliding(at, slice, w, spot, of)     dw = clamp(3×3 of clamp(x · weight + bias) + bias); slice: of the weights w, in
//                                       shared memory; of: those of a plane, loaded if ONCE. A warp makes 16·PLANES
//                                       channels, or WARPS_P warps share their pixels
//
// A warp takes SEGMENT columns of outputs and walks down STRIP rows of them. Of each row, expand makes the 16 hidden
// pixels above them, borders included. What lies to the left and to the right of a pixel is in the registers of a
// neighbouring lane, four lanes away: shuffles bring it. A row is added to all outputs that need it, and is gone.
//
//     hidden pixels        0 │ 1  2  …  13  14 │ 15      rows 0 … 7 of the product are the even ones, rows 8 … 15 the
//     outputs, stride 1      │ 0  1  …  12  13 │         odd ones: lane 4g + t holds pixels 2g and 2g + 1, of each 8
//     outputs, stride 2      │ 0     1  …   6  │         channels 2t and 2t + 1 (of floats, 4t … 4t + 3 of 16)
//
// So one neighbour of each of a lane's pixels is its own. At stride 1, pixels 0 and 15 lack the other one.
// All widths of MobileNetV2 but the last one at stride 1, 7, are multiples of SEGMENT. What is not needed: hidden
// channels in shared memory, their stores and loads, the table of rows, and the barrier between warps that share
// pixels. The sums are those of expand.h and depthwise.h, in the same order. Halves at stride 2: see chained.h.
//
// A hidden pixel outside of the image is zero because its upper bound is; expand's lower bound must be 0.
#pragma once
#include "fused/depthwise.h"
#include "fused/expand.h"

template <class S> constexpr int SEGMENT = S::STRIDE == 1 ? 14 : 7;  // columns of outputs of a warp

// The taps of a plane's channels that a lane needs, and how it adds a row of hidden pixels to the outputs acc that need
// it. y: of the rows that the outputs need, from their first one on. SUMS: how many times 4 a row of them is in a lane.
template <class S> struct TapsOfHalves {
    static constexpr int SUMS = 2;  // halves of the channels; of two pixels, two channels each
    unsigned diagonal[2][9];
    float bias[2][4];

    template <class At> __device__ __forceinline__ void load(const At& at, const __half* slice, int channel) {
        load_diagonals(diagonal, at.g, at.t, slice + Geometry<S>::W2 + channel * 9);
        load_bias(bias, at, slice + Geometry<S>::B2 + channel);
    }
    // d: the sums of expand, of this lane's two pixels; bound: what they are clamped to
    template <int ROWS>
    __device__ __forceinline__ void add(float (&acc)[ROWS][2][4], int y, const float (&d)[2][4], float,
                                        const float (&bound)[2], int lane) const {
        unsigned two[2][4], third[2][2];  // under the first two columns of taps, and under the third
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const unsigned even = min_halves(pack_relu(d[half][0], d[half][1]), pack(bound[0], bound[0]));
            const unsigned odd = min_halves(pack_relu(d[half][2], d[half][3]), pack(bound[1], bound[1]));
            two[half][0] = left_of(odd, lane), two[half][1] = even, two[half][2] = even, two[half][3] = odd;
            third[half][0] = odd, third[half][1] = right_of(even, lane);
        }
#pragma unroll
        for (int part = 0; part < 2; ++part)
#pragma unroll
            for (int ky = 0; ky < 3; ++ky)
                if (y >= ky && y - ky < ROWS)
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const unsigned(&taps)[9] = diagonal[half];
                        float(&sum)[4] = acc[y - ky][half];
                        if (part == 1) mma_f16_k8(sum, third[half], taps[ky * 3 + 2]);
                        else if (ky == 0) mma_f16(sum, two[half], {taps[0], taps[1]}, bias[half]);
                        else mma_f16(sum, two[half], {taps[ky * 3], taps[ky * 3 + 1]});
                    }
    }
};

template <class S> struct TapsOfFloats {
    static constexpr int SUMS = 2 / S::STRIDE;  // pixels, four channels each
    float taps[9][4], bias[4];

    template <class At> __device__ __forceinline__ void load(const At& at, const float* slice, int channel) {
        const int mine = channel + 4 * at.t;
#pragma unroll
        for (int e = 0; e < 4; ++e)
#pragma unroll
            for (int tap = 0; tap < 9; ++tap) taps[tap][e] = slice[Geometry<S>::W2 + (mine + e) * 9 + tap];
        get(bias, slice + Geometry<S>::B2 + mine);
    }
    template <int ROWS>
    __device__ __forceinline__ void add(float (&acc)[ROWS][SUMS][4], int y, const float (&d)[2][4], float low,
                                        const float (&bound)[2], int lane) const {
        float under[3][SUMS][4];  // columns of taps, pixels, channels
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const float even = clamp(d[e / 2][e % 2], low, bound[0]), odd = clamp(d[e / 2][2 + e % 2], low, bound[1]);
            if constexpr (S::STRIDE == 1) {
                under[0][0][e] = left_of(odd, lane), under[1][0][e] = even, under[2][0][e] = odd;
                under[0][1][e] = even, under[1][1][e] = odd, under[2][1][e] = right_of(even, lane);
            } else under[0][0][e] = even, under[1][0][e] = odd, under[2][0][e] = right_of(even, lane);
        }
#pragma unroll
        for (int kx = 0; kx < 3; ++kx)
#pragma unroll
            for (int ky = 0; ky < 3; ++ky) {
                const int r = (y - ky) / S::STRIDE;  // the output that needs this row under its row ky of taps
                if (y >= ky && r * S::STRIDE == y - ky && r < ROWS)
#pragma unroll
                    for (int i = 0; i < 4 * SUMS; ++i) {
                        float& sum = acc[r][i / 4][i % 4];
                        sum = fmaf(under[kx][i / 4][i % 4], taps[ky * 3 + kx][i % 4],
                                   ky + kx == 0 ? bias[i % 4] : sum);
                    }
            }
    }
};

template <class S, bool HALVES> struct TapsOf { using type = TapsOfFloats<S>; };
template <class S> struct TapsOf<S, true> { using type = TapsOfHalves<S>; };

template <class S> struct SlidingWeights {  // of a plane, in registers; those of expand if HELD
    using G = Geometry<S>;
    using A = typename G::A;
    static constexpr bool HELD = G::K_STEPS * (int)sizeof(typename A::Columns) <= 160;  // bytes of a thread's registers
    typename A::Columns held[HELD ? G::K_STEPS : 1];
    typename TapsOf<S, G::FP16>::type taps;
    float hidden_bias[2][4];

    template <class At> __device__ __forceinline__ void load(const At& at, const typename S::T* slice, int plane) {
        const int channel = (at.warp_c * G::PLANES + plane) * 16;
        const typename S::T* const row = slice + G::W1 + (channel + at.row_of_b()) * G::X_ROW + at.channel_of_b();
#pragma unroll
        for (int k = 0; HELD && k < G::K_STEPS; ++k) held[k].load(row + k * A::K);
        taps.load(at, slice, channel);
        load_bias(hidden_bias, at, slice + G::B1 + channel);
    }
};

template <class S, class Crew>
__device__ __forceinline__ void sliding(const Workspace<S, Crew>& at, const typename S::T* slice,
                                        const Weights<typename S::Arithmetic>& w, const Spot<S>& spot,
                                        SlidingWeights<S>& of) {
    using G = Geometry<S>;
    using A = typename G::A;
    using T = typename S::T;
    constexpr bool STEM_OF = S::EXPAND == STEM;
    constexpr int K_STEPS = G::K_STEPS, D_ROW = G::D_ROW;
    constexpr int CHUNK = STEM_OF ? K_STEPS : smaller(A::TERMS / A::K, K_STEPS);  // as in expand.h
    constexpr int SEGMENTS = ceil_div(S::TILE_W, SEGMENT<S>), ITEMS = S::IMAGES * G::STRIPS * SEGMENTS;
    constexpr int WARPS_P = S::WARPS_P, STRIDE = S::STRIDE, ROWS = (S::STRIP - 1) * STRIDE + 3;
    using Taps = typename TapsOf<S, G::FP16>::type;
    constexpr int DOWN = STEM_OF ? 2 * G::PATCH_ROW : G::IN_W * G::X_ROW;
    const float top = w.high[0];
#pragma unroll 1
    for (int j = 0; j < G::PLANES; ++j) {
        const int channel = (at.warp_c * G::PLANES + j) * 16;
        const T* const b_row = slice + G::W1 + (channel + at.row_of_b()) * G::X_ROW + at.channel_of_b();
        if constexpr (!G::ONCE) of.load(at, slice, j);
        const auto& hidden_bias = of.hidden_bias;
        // the warps of the same channels take items in turn, from one plane to the next
        const int first_item = (at.warp_p + j * (WARPS_P - ITEMS % WARPS_P)) % WARPS_P;
#pragma unroll 1
        for (int item = first_item; item < ITEMS; item += WARPS_P) {
            const int column = item % SEGMENTS * SEGMENT<S>, strip = item / SEGMENTS % G::STRIPS * S::STRIP;
            const int image = item / (SEGMENTS * G::STRIPS), row = image * G::IN_H + strip * STRIDE;
            // the hidden pixel whose row this lane gives to ldmatrix and stmatrix, counted from the first one; where
            // there is none in the tile, the last one again
            const int pixel = at.lane % 8 * 2 + at.lane / 8 % 2;
            const int there = G::in_row(smaller(column * STRIDE + pixel, G::IN_W - 1));
            const T* from = at.x_tile + (row * G::IN_W + there) * G::X_ROW + at.channel_of_a();
            if (STEM_OF)
                from = at.x_tile + 2 * row * G::PATCH_ROW +
                       (A::K == 16 ? G::pair_at(there + at.lane / 16) * G::E : there * 4 + at.lane / 16 * G::PATCH_ODD);
            const int first_row = spot.y0 + strip * STRIDE;
            const int to = (image * S::TILE_H + strip) * S::TILE_W, first = column - (STRIDE == 1);
            float bound[2];
            bool stored[2];  // of this lane's two pixels: bounds, 0 outside of the image; whether outputs are stored
#pragma unroll
            for (int p = 0; p < 2; ++p) {
                const int mine = 2 * at.g + p;
                bound[p] = (unsigned)(spot.x0 + column * STRIDE + mine) < S::W ? top : 0;
                stored[p] = STRIDE == 1 ? mine > 0 && mine <= SEGMENT<S> && column + mine <= S::TILE_W
                                        : at.g < SEGMENT<S> && column + at.g < S::TILE_W;
            }
            const bool mine = pixel > 0 && pixel <= SEGMENT<S> && column + pixel <= S::TILE_W;
            T* const dw = G::FP16 && !mine
                              ? at.spare
                              : at.dw + (to + G::dw_at(first + pixel)) * D_ROW + channel + at.lane / 16 * 8;
            const int down = G::FP16 && !mine ? 0 : S::TILE_W * D_ROW;
            // a row of hidden pixels, before they are clamped
            const auto expand_row = [&](float (&d)[2][4], int y) {
                if constexpr (A::OWN_SUMS)
#pragma unroll
                    for (int i = 0; i < 8; ++i) d[i / 4][i % 4] = hidden_bias[i / 4][i % 4];
#pragma unroll
                for (int k0 = 0; k0 < K_STEPS; k0 += CHUNK) {
                    float part[2][4] = {};
#pragma unroll
                    for (int k = k0; k < smaller(k0 + CHUNK, K_STEPS); ++k) {
                        const int c = STEM_OF ? k * A::K / 16 * G::PATCH_ROW + k * A::K % 16 / 2 : k * A::K;
                        typename A::Columns b;
                        if constexpr (SlidingWeights<S>::HELD) b = of.held[k];
                        else b.load(b_row + k * A::K);
                        typename A::Rows a;
                        a.load(from + y * DOWN + c, G::MEASURES ? G::PATCH_LOW : 4);
                        a.split();
                        if constexpr (A::OWN_SUMS) b.multiply(part, a);
                        else if (k == 0) b.multiply(d, a, hidden_bias);
                        else b.multiply(d, a);
                    }
                    if constexpr (A::OWN_SUMS)
#pragma unroll
                        for (int i = 0; i < 8; ++i)
                            d[i / 4][i % 4] = A::add(d[i / 4][i % 4], part[i / 4][i % 4], w.scales.hidden);
                }
            };
            float acc[S::STRIP][Taps::SUMS][4];
            const auto store_row = [&](int y) {
                if constexpr (G::FP16) {
                    store_bounded(dw + y * down, acc[y], w.low[1], w.high[1]);
                } else {
                    float(&v)[Taps::SUMS][4] = acc[y];
#pragma unroll
                    for (int i = 0; i < 4 * Taps::SUMS; ++i)
                        v[i / 4][i % 4] = bounded(v[i / 4][i % 4], w.low[1], w.high[1]);
#pragma unroll
                    for (int p = 0; p < Taps::SUMS; ++p)
                        if (stored[p])
                            A::put_dw(at.dw + (to + first + at.g * Taps::SUMS + p + y * S::TILE_W) * D_ROW,
                                      channel + 4 * at.t, v[p], w.scales);
                }
            };
            // The next row is expanded before this one is convolved, and outputs are stored a row later: whatever a row
            // waits for, tensor cores, shuffles, shared memory, another one has work meanwhile. For a stem of halves it
            // takes registers that more warps make better use of.
            constexpr int EARLY = STEM_OF && G::FP16 ? 0 : 1;
            float d[2][2][4];
            if (EARLY) expand_row(d[0], 0);
#pragma unroll
            for (int y = 0; y < ROWS; ++y) {
                if (y + EARLY < ROWS) expand_row(d[(y + EARLY) % 2], y + EARLY);
                if (y > 2 && (y - 3) % STRIDE == 0) store_row((y - 3) / STRIDE);
                const bool inside =
                    (y > 0 && y < ROWS - 1 && G::OUT_H % S::TILE_H == 0) || (unsigned)(first_row + y) < S::H;
                const float bounds[2] = {inside ? bound[0] : 0, inside ? bound[1] : 0};
                of.taps.add(acc, y, d[y % 2], w.low[0], bounds, at.lane);
            }
            store_row(S::STRIP - 1);
        }
    }
}
