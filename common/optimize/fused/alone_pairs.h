// alone_pairs.h - a whole inverted-residual block by single warps, as alone.h: floats, as pairs of halves.
//
//   AlonePairs<S> block(shared, fragments, bounds, scales);      S: a struct of numbers, which generate.py writes
//   block.run(x, y, N);                                          a warp, or PARTS warps, take one item after the other
//
// A warp takes 14 columns of outputs, STRIP rows of them: an item. Of each row of hidden pixels it expands 16 channels,
// convolves and projects them. Hidden channels and dw are in registers alone, and no warp waits for another one:
//
//     16 pixels of x × C  ──expand──►  16 pixels × 16 hidden  ──depthwise──►  16 outputs × 16  ──project──►  sums
//     pairs of halves,    three mma    floats, shuffles         9 FMA         split here      three mma     registers
//     shared, ldmatrix
//
// What differs from alone.h: each of the two products is three (pair_of_halves.h), whose sums begin at 0 and are added
// by FMA; x is taken apart by the warp that reads it, where it lies; the depthwise convolution multiplies floats by
// FMA, as three products with a diagonal matrix take longer; y is written from the registers, 32 bytes of four lanes.
//
// A lane's hidden values, of each eight channels: pixels 2g and 2g + 1 (stride 2: of outputs 2g and 2g + 1 the even and
// the odd pixel), channels 2t and 2t + 1. The other pixels that its outputs need are those of the lanes four away.
//
// Scales: taps and biases of the depthwise convolution come multiplied by scales.dw, a power of two (fragments.py), so
// that its results are what is split.
#pragma once
#include "fused/items.h"
#include "fused/scales.h"
#include "pair_of_halves.h"

template <class S> struct AlonePairSizes : AloneItems<S, S::C / 4> {
    using I = AloneItems<S, S::C / 4>;
    static constexpr int C = I::C, NO = I::NO;

    // x of an item, in shared memory: rows of PX pixels. A piece is 4 floats; once x is split, 8 channels are a piece
    // of high halves and one of low ones.
    static constexpr int X_ROW = I::PX * C, X = I::ROWS * X_ROW;  // floats

    // in 16 bytes, as in fragments.py: fragments of a lane for 16 channels, then what lanes of one t share
    static constexpr int K_STEPS = ceil_div(C, 16), OF_LANE = 2 * K_STEPS + NO;
    static constexpr int EXPAND_BIAS = 9, DW_BIAS = 10, OF_PLANE = 11;  // after the taps; four of each
    static constexpr int FRAGMENTS = I::PLANES * OF_LANE * 32, TABLES = I::PLANES * OF_PLANE * 4;
    static constexpr int ALL = FRAGMENTS + TABLES + ceil_div(I::O, 4);
    static_assert(C % 8 == 0, "channels");
};

template <class S> struct AlonePairs {
    using G = AlonePairSizes<S>;
    using Item = typename G::Item;
    static constexpr int ST = G::ST, C = G::C, O = G::O, NO = G::NO;

    const uint4* fragments;
    const float4* tables;
    const float* bias;
    float* mine;  // of this warp's item
    float4* sums_of_slot;
    AloneBounds w;
    PairScales scales;
    int lane, g, t, slot, part;

    __device__ __forceinline__ AlonePairs(void* shared, const uint4* from, const AloneBounds& bounds,
                                          const PairScales& scales)
        : w(bounds), scales(scales) {
        w.low[1] *= scales.dw, w.high[1] *= scales.dw;
        lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
        slot = warp / G::PARTS, part = warp % G::PARTS;
        uint4* const all = (uint4*)shared;
        fragments = all, tables = (const float4*)(all + G::FRAGMENTS), bias = (const float*)(tables + G::TABLES);
        float* const items = (float*)(all + G::ALL);
        mine = items + slot * (S::BUFFERS * G::X);
        sums_of_slot = (float4*)(items + G::SLOTS * S::BUFFERS * G::X) + slot * (G::PARTS * G::SUMS) + lane;
        for (int i = threadIdx.x; i < G::ALL; i += S::THREADS) cp_async_16(all + i, from + i);
        cp_async_commit();
    }

    // ---- x

    // Of x of an item, this warp's part of the rows, into `to`.
    __device__ __forceinline__ void fetch(const float* x, int index, float* to) const {
        constexpr int P = G::PX * G::PIECES;
        static_assert(P % 32 == 0, "pieces");
        const Item item(index);
        const int x0 = item.x0(), y0 = item.y0() + part;
#pragma unroll
        for (int j = 0; j < P / 32; ++j) {
            const unsigned i = lane + 32 * j, q = i / G::PIECES, piece = i % G::PIECES;
            const bool column = (unsigned)(x0 + (int)q) < S::W;
            const float* const from = x + ((item.image * S::H + y0) * S::W + x0 + (int)q) * C + piece * 4;
            float* const there =
                to + part * G::X_ROW + G::place(q) * C + G::exchanged(q / (2 * ST), piece) * 4;
#pragma unroll
            for (int r = 0; r < G::ROWS; r += G::PARTS)
                if (G::ROWS % G::PARTS == 0 || r + part < G::ROWS)
                    cp_async_16(there + r * G::X_ROW, from + r * S::W * C, column && (unsigned)(y0 + r) < S::H);
        }
    }

    // x of an item, which has come, as pairs of halves in the place of the floats.
    __device__ __forceinline__ void split_x(float* here) const {
        constexpr int ALL = G::ROWS * G::PX * (C / 8);
#pragma unroll 2
        for (int i = lane + 32 * part; i < ALL; i += 32 * G::PARTS) {
            const unsigned pixel = (unsigned)i / (C / 8), group = i - pixel * (C / 8);
            float* const of = here + pixel * C;
            uint4* const first = (uint4*)(of + G::exchanged(pixel % 8, 2 * group) * 4);
            uint4* const second = (uint4*)(of + G::exchanged(pixel % 8, 2 * group + 1) * 4);
            const float4 a = *(const float4*)first, b = *(const float4*)second;
            const float v[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
            unsigned high[4], low[4];
            split_halves(high, low, v, scales.x);
            *first = make_uint4(high[0], high[1], high[2], high[3]);
            *second = make_uint4(low[0], low[1], low[2], low[3]);
        }
    }

    // ---- 16 hidden channels of an item

    // While row Y is convolved, Y + 1 is expanded and x of Y + 2 comes; an output is projected a step after it is over.
    struct Strip {
        const AlonePairs& at;
        const float (&bound)[ST][2];
        const float* x;  // where this lane reads
        int y0;
        float (&sums)[S::STRIP][NO][4];
        uint4 of_expand[G::K_STEPS][2], of_project[NO];  // b of high and of low halves, two words each
        float taps[9][4], expand_bias[4], dw_bias[4];    // of channels 2t, 2t + 1 of both eights
        float acc[3][2][4];                              // of outputs, by their row % 3
        float values[ST][2][4], left[2][2], right[2][2];  // of a row of hidden pixels, and of the lanes beside
        float hidden[ST][2][4];
        unsigned high[ST][G::K_STEPS][4], low[ST][G::K_STEPS][4];  // of a row of x

        __device__ __forceinline__ static void get(float (&four)[4], const float4& from) {
            four[0] = from.x, four[1] = from.y, four[2] = from.z, four[3] = from.w;
        }
        __device__ __forceinline__ void get_weights(int plane) {
            const uint4* const from = at.fragments + plane * (G::OF_LANE * 32) + at.lane;
#pragma unroll
            for (int i = 0; i < 2 * G::K_STEPS; ++i) of_expand[i / 2][i % 2] = from[i * 32];
#pragma unroll
            for (int n = 0; n < NO; ++n) of_project[n] = from[(2 * G::K_STEPS + n) * 32];
            const float4* const table = at.tables + plane * (G::OF_PLANE * 4) + at.t;
#pragma unroll
            for (int i = 0; i < 9; ++i) get(taps[i], table[i * 4]);
            get(expand_bias, table[G::EXPAND_BIAS * 4]), get(dw_bias, table[G::DW_BIAS * 4]);
        }

        template <int Y> __device__ __forceinline__ void load() {
            const int i = at.lane % 8, second = at.lane / 16;
#pragma unroll
            for (int p = 0; p < ST; ++p)
#pragma unroll
                for (int k = 0; k < G::K_STEPS; ++k) {
                    const float* const from = x + Y * G::X_ROW + p * 16 * C;
                    if (C % 16 && k == G::K_STEPS - 1) {
                        unsigned two[2];
                        ldmatrix_x2(two, from + G::exchanged(i, 4 * k) * 4);
                        high[p][k][0] = two[0], high[p][k][1] = two[1];
                        ldmatrix_x2(two, from + G::exchanged(i, 4 * k + 1) * 4);
                        low[p][k][0] = two[0], low[p][k][1] = two[1];
                    } else {
                        ldmatrix_x4(high[p][k], from + G::exchanged(i, 4 * k + 2 * second) * 4);
                        ldmatrix_x4(low[p][k], from + G::exchanged(i, 4 * k + 2 * second + 1) * 4);
                    }
                }
        }
        __device__ __forceinline__ void expand() {
            const float zero[4] = {};
#pragma unroll
            for (int i = 0; i < 3 * G::K_STEPS; ++i)  // small products first
#pragma unroll
                for (int j = 0; j < 2 * ST; ++j) {
                    const int product = i / G::K_STEPS, k = i % G::K_STEPS, p = j / 2;
                    const unsigned(&a)[4] = product == 0 ? low[p][k] : high[p][k];
                    const uint4& of = of_expand[k][j % 2];
                    const unsigned b[2] = {product == 1 ? of.z : of.x, product == 1 ? of.w : of.y};
                    float(&d)[4] = hidden[p][j % 2];
                    const bool half = C % 16 && k == G::K_STEPS - 1;
                    if (i == 0 && !half) mma_f16(d, a, b, zero);
                    else if (!half) mma_f16(d, a, b);
                    else {
#pragma unroll
                        for (int e = 0; e < 4 && i == 0; ++e) d[e] = 0;
                        mma_f16_k8(d, {a[0], a[1]}, b[0]);
                    }
                }
        }
        template <int Y> __device__ __forceinline__ void put() {
            const bool inside = (Y > 0 && Y < G::ROWS - 1 && G::OUT_H % S::STRIP == 0) || (unsigned)(y0 + Y) < S::H;
#pragma unroll
            for (int i = 0; i < 8 * ST; ++i) {
                const int p = i / 8, h = i / 4 % 2, e = i % 4;
                const float value = fmaf(hidden[p][h][e], at.scales.hidden, expand_bias[2 * h + e % 2]);
                values[p][h][e] = clamp(value, 0, inside ? bound[p][e / 2] : 0);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int h = i / 2, c = i % 2;
                if (ST == 1) left[h][c] = left_of(values[0][h][2 + c], at.lane);
                right[h][c] = right_of(values[0][h][c], at.lane);
            }
        }
        // Under column kx of taps of the lane's output i, of channel c of an eight.
        __device__ __forceinline__ float under(int kx, int i, int h, int c) const {
            if (ST == 1) {
                const int place = i + kx;  // left, 2g, 2g + 1, right
                return place == 0 ? left[h][c] : place == 3 ? right[h][c] : values[0][h][2 * (place - 1) + c];
            }
            if (kx == 1) return values[ST - 1][h][2 * i + c];
            return i + kx == 3 ? right[h][c] : values[0][h][2 * (i + kx / 2) + c];
        }
        // Row Y under row ky of taps.
        template <int Y> __device__ __forceinline__ void add(int ky) {
            if (Y < ky || (Y - ky) % ST || (Y - ky) / ST >= S::STRIP) return;
#pragma unroll
            for (int kx = 0; kx < 3; ++kx)
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    const int h = j / 4, i = j / 2 % 2, c = j % 2;
                    float& sum = acc[(Y - ky) / ST % 3][h][2 * i + c];
                    sum = fmaf(under(kx, i, h, c), taps[3 * ky + kx][2 * h + c],
                               ky + kx == 0 ? dw_bias[2 * h + c] : sum);
                }
        }
        __device__ __forceinline__ void project(float (&parts)[NO][4], const unsigned (&a)[4],
                                                const unsigned (&a_low)[4]) const {
            const float zero[4] = {};
#pragma unroll
            for (int product = 0; product < 3; ++product)
#pragma unroll
                for (int n = 0; n < NO; ++n) {
                    const uint4& of = of_project[n];
                    if (product == 0) mma_f16(parts[n], a_low, {of.x, of.y}, zero);
                    else if (product == 1) mma_f16(parts[n], a, {of.z, of.w});
                    else mma_f16(parts[n], a, {of.x, of.y});
                }
        }
        template <int Y> __device__ __forceinline__ void step() {
            constexpr bool IS_OVER = Y >= 3 && (Y - 3) % ST == 0;  // an output row, since the step before
            constexpr int R = IS_OVER ? (Y - 3) / ST : 0;
            if constexpr (Y == 0) load<0>(), expand(), load<1>(), put<0>();
            if constexpr (Y + 1 < G::ROWS) expand();
            if constexpr (Y + 2 < G::ROWS) load<Y + 2>();
            if constexpr (Y < G::ROWS) add<Y>(2), add<Y>(1);
            float parts[NO][4];
            if constexpr (IS_OVER) {
                unsigned a[4], a_low[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float(&of)[4] = acc[R % 3][i / 2];
                    split_halves(a[i], a_low[i], bounded(of[i % 2 * 2], at.w.low[1], at.w.high[1]),
                                 bounded(of[i % 2 * 2 + 1], at.w.low[1], at.w.high[1]));
                }
                project(parts, a, a_low);
            }
            if constexpr (Y < G::ROWS) add<Y>(0);
            if constexpr (Y + 1 < G::ROWS) put<Y + 1>();
            if constexpr (IS_OVER)
#pragma unroll
                for (int n = 0; n < NO; ++n) add_scaled(sums[R][n], parts[n], at.scales.sums);
            if constexpr (Y < G::ROWS) step<Y + 1>();
        }
    };

    // ---- Items

    // The sums of an item's outputs, over this warp's hidden channels.
    __device__ __forceinline__ void compute(float (&sums)[S::STRIP][NO][4], const Item& item, const float* here) const {
        float bound[ST][2];
#pragma unroll
        for (int p = 0; p < ST; ++p)
#pragma unroll
            for (int i = 0; i < 2; ++i)
                bound[p][i] = (unsigned)(item.x0() + (2 * g + i) * ST + p) < S::W ? w.high[0] : 0;
#pragma unroll
        for (int n = 0; n < NO; ++n) {
            float2 two = *(const float2*)(bias + 8 * n + 2 * t);
            if (G::PARTS > 1 && part > 0) two = make_float2(0, 0);
#pragma unroll
            for (int r = 0; r < S::STRIP; ++r)
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    float more[2] = {}, rest[2] = {};
                    if (S::ADDS_X && (G::PARTS == 1 || part == 0)) {
                        const unsigned* const of = (const unsigned*)(here + ((r + 1) * 16 + i * 8 + g) * C) + t;
                        unpack(more[0], more[1], of[G::exchanged(g, 2 * n) * 4]);
                        unpack(rest[0], rest[1], of[G::exchanged(g, 2 * n + 1) * 4]);
                    }
                    sums[r][n][2 * i] = fmaf(more[0] + rest[0], scales.x_back, two.x);
                    sums[r][n][2 * i + 1] = fmaf(more[1] + rest[1], scales.x_back, two.y);
                }
        }
#pragma unroll 1
        for (int plane = part; plane < G::PLANES; plane += G::PARTS) {
            Strip strip{*this, bound, here + lane % 16 * C, item.y0(), sums};
            strip.get_weights(plane);
            strip.template step<0>();
        }
    }

    // The lane's part of 8 outputs, n, of a row.
    __device__ __forceinline__ void store(float* y, const Item& item, int r, int n, const float (&d)[4]) const {
        if (G::OUT_H % S::STRIP && item.oy + r >= G::OUT_H) return;
        float* const row = y + ((item.image * G::OUT_H + item.oy + r) * G::OUT_W + item.ox) * O + 8 * n + 2 * t;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int column = 2 * g + i - (ST == 1 ? 1 : 0);
            if ((unsigned)column < ALONE_COLUMNS &&
                (G::OUT_W % ALONE_COLUMNS == 0 || item.ox + column < G::OUT_W))
                *(float2*)(row + column * O) = make_float2(bounded(d[2 * i], w.low[2], w.high[2]),
                                                           bounded(d[2 * i + 1], w.low[2], w.high[2]));
        }
    }

    __device__ __forceinline__ void run(const float* x, float* y, int N) {
        const auto fetch_item = [&](int index, float* to) { fetch(x, index, to); };
        walk_items<G>(N, slot, mine, fetch_item, [&](int index, float* here, bool busy) {
            if (busy) split_x(here);
            G::meet();
            const Item item(busy ? index : 0);
            float sums[S::STRIP][NO][4];
            if (busy) compute(sums, item, here);
            const auto store_item = [&](int i, const float(&d)[4]) { store(y, item, i / NO, i % NO, d); };
            if (G::PARTS > 1) {
                if (busy) give_sums<G>(sums_of_slot, part, sums);
                G::meet();
                if (busy) add_sums<G>(sums_of_slot, part, store_item);
            } else {
#pragma unroll
                for (int i = 0; i < S::STRIP * NO; ++i) store_item(i, sums[i / NO][i % NO]);
            }
        });
    }
};
