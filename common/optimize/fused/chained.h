// chained.h - expand and depthwise of halves at stride 2 in one go: hidden channels stay in registers.
//
//   chained(at, slice, w, spot, of)     dw = clamp(3×3 of clamp(x · weight + bias) + bias); slice: of the weights w, in
//                                       shared memory; of: those of a plane, loaded if ONCE. A warp makes 16·PLANES
//                                       channels, or WARPS_P warps share their pixels
//
// The sums of a product that a thread holds are, as halves, what it must hold of the first operand of the next product:
//
//     16 pixels of x × K  ×  K × 16 weights  =  16 pixels × 16 hidden channels  ×  diagonal = 16 outputs × 16 channels
//     ldmatrix               registers          registers                          registers     registers, stmatrix
//
// Of the 16 outputs of a row, each needs three hidden pixels of a row: expand computes 16 pixels for each of the three,
// from rows of x that are shifted by a pixel. At stride 2 these are 1.5 times as many as a row has; at stride 1, see
// sliding.h. Hidden channels in shared memory, their stores and loads, the table of rows, and the barrier
// between warps that share pixels are not needed. The sums are those of expand.h and depthwise.h, in the same order.
//
// A hidden pixel outside of the image is zero because its upper bound is; expand's lower bound must be 0.
#pragma once
#include "fused/depthwise.h"
#include "fused/expand.h"

template <class S> struct ChainedWeights {  // of a plane, in registers
    using G = Geometry<S>;
    Fp16::Columns weights[G::K_STEPS];
    unsigned diagonal[2][9];
    float hidden_bias[2][4], bias[2][4];

    template <class At> __device__ __forceinline__ void load(const At& at, const __half* slice, int plane) {
        const int channel = (at.warp_c * G::PLANES + plane) * 16;
#pragma unroll
        for (int k = 0; k < G::K_STEPS; ++k)
            weights[k].load(slice + G::W1 + (channel + at.row_of_b()) * G::X_ROW + k * 16 + at.channel_of_b());
        load_diagonals(diagonal, at.g, at.t, slice + G::W2 + channel * 9);
        load_bias(hidden_bias, at, slice + G::B1 + channel), load_bias(bias, at, slice + G::B2 + channel);
    }
};

template <class S, class Crew>
__device__ __forceinline__ void chained(const Workspace<S, Crew>& at, const __half* slice, const Weights<Fp16>& w,
                                        const Spot<S>& spot, ChainedWeights<S>& of) {
    using G = Geometry<S>;
    constexpr int ROUNDS = ceil_div(G::COLUMNS, 16), D_ROW = G::D_ROW, K_STEPS = G::K_STEPS, WARPS_P = S::WARPS_P;
    // at an even size nothing lies behind the last row and column that an output needs
    constexpr bool BELOW = S::H % 2, RIGHT = S::W % 2;
    const unsigned top = pack(w.high[0], w.high[0]);
#pragma unroll 1
    for (int j = 0; j < G::PLANES; ++j) {
        const int channel = (at.warp_c * G::PLANES + j) * 16;
        if constexpr (!G::ONCE) of.load(at, slice, j);
        // the warps of the same channels take rounds in turn, from one plane to the next
        const int first_round = (at.warp_p + j * (WARPS_P - ROUNDS % WARPS_P)) % WARPS_P;
#pragma unroll 1
        for (int round = first_round; round < ROUNDS; round += WARPS_P) {
            const int i = round * 16 + at.lane % 16;
            unsigned first, to;
            G::column(smaller(i, G::COLUMNS - 1), first, to);
            const bool mine = G::COLUMNS % 16 == 0 || i < G::COLUMNS;
            __half* const row = mine ? at.dw + to * D_ROW + channel + at.lane / 16 * 8 : at.spare;
            const int down = mine ? S::TILE_W * D_ROW : 0;
            const __half* const from = at.x_tile + first * G::X_ROW + at.channel_of_a();
            // of the two pixels of this thread's sums: the first row, the bounds of the first and the last column
            int y_first[2];
            unsigned left[2], right[2];
#pragma unroll
            for (int p = 0; p < 2; ++p) {
                const unsigned pixel = round * 16 + at.g + 8 * p;
                const int x = spot.x0 + (int)(pixel % S::TILE_W) * S::STRIDE;
                y_first[p] = spot.y0 + (int)(pixel / S::TILE_W % G::STRIPS) * S::STRIP * S::STRIDE;
                left[p] = x < 0 ? 0 : top, right[p] = RIGHT && x + 2 >= S::W ? 0 : top;
            }
            float acc[S::STRIP][2][4];
#pragma unroll
            for (int y = 0; y < (S::STRIP - 1) * S::STRIDE + 3; ++y) {
                unsigned hidden[3][2][2];  // under three columns of taps, of two halves of the channels, of two pixels
#pragma unroll
                for (int kx = 0; kx < 3; ++kx) {
                    float d[2][4];
#pragma unroll
                    for (int k = 0; k < K_STEPS; ++k) {
                        Fp16::Rows a;
                        a.load(from + (y * G::IN_W + G::in_row(kx)) * G::X_ROW + k * 16);
                        if (k == 0) of.weights[k].multiply(d, a, of.hidden_bias);
                        else of.weights[k].multiply(d, a);
                    }
#pragma unroll
                    for (int p = 0; p < 2; ++p) {
                        unsigned bound = kx == 0 ? left[p] : kx == 1 ? top : right[p];
                        if (y == 0 && y_first[p] < 0) bound = 0;
                        if (BELOW && y_first[p] + y >= S::H) bound = 0;
#pragma unroll
                        for (int half = 0; half < 2; ++half)
                            hidden[kx][half][p] = min_halves(pack_relu(d[half][2 * p], d[half][2 * p + 1]), bound);
                    }
                }
                const auto& h = hidden;
                const unsigned two[2][4] = {{h[0][0][0], h[0][0][1], h[1][0][0], h[1][0][1]},
                                            {h[0][1][0], h[0][1][1], h[1][1][0], h[1][1][1]}};
                const unsigned third[4] = {h[2][0][0], h[2][0][1], h[2][1][0], h[2][1][1]};
                add_row<S::STRIDE>(acc, y, two, third, of.diagonal, of.bias);
                const int r = (y - 2) / S::STRIDE;
                if (y >= 2 && r * S::STRIDE == y - 2) store_bounded(row + r * down, acc[r], w.low[1], w.high[1]);
            }
        }
    }
}
