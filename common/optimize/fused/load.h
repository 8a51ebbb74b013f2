// load.h - what a fused block fetches from global memory: slices of the weights, the pixels of x; and what it clears.
//
//   fetch_slice(at, w, slice)     SLICE hidden channels of all weights, to a stage
//   prefetch(at, w)               the first slices
//   load_bias(bias, at, from)     a slice's biases into registers, those of a thread's sums
//   fetch_x(at, x, spot)          the pixels of a tile, channels side by side; zeros where there is no image
//   split_x(at, w)                the pixels that this thread has fetched and that have come, as pairs of halves; not a
//                                 stem's, of which image.h takes care
//   make_rows(at, spot)           the table of rows: where the hidden channels of each pixel go
//   fetch_hidden(at, x, spot, slice)    of a block without expand: a slice of x is the hidden tensor
//   clear(at)                     what nobody writes later: the border of a whole image, what fills up tiles of mma
//
// All of it is asked for with cp.async, except a stem's pixels of 3 channels, which go through registers (image.h).
#pragma once
#include "fused/image.h"

// ---- Weights

// Of 16 rows that row_of_b reads those for its first tile come first: 8 rows that are read together lie side by side.
__host__ __device__ constexpr int of_tiles(int row) {
    return (row & ~15) + row % 8 / 2 * 4 + row / 8 % 2 * 2 + row % 2;
}

// ROWS rows of COLUMNS elements, LENGTH apart, of which `rows` and `columns` are there, by BLOCK threads.
template <int BLOCK, int ROWS, int COLUMNS, int TO_ROW, int LENGTH, bool TILES = false, class T>
__device__ __forceinline__ void fetch_rows(T* to, const T* array, int rows, int columns) {
    constexpr int E = 16 / sizeof(T), CHUNKS = ceil_div(COLUMNS, E), STEP = BLOCK / CHUNKS;
    if constexpr (BLOCK % CHUNKS == 0 && (!TILES || STEP % 16 == 0 || 16 % STEP == 0)) {
        // a thread has the same columns of all its rows: what it adds to addresses is constant
        const int first = threadIdx.x / CHUNKS, column = threadIdx.x % CHUNKS * E;
        const int source = TILES ? of_tiles(first) : first;
        T* const at = to + first * TO_ROW + column;
        const T* const from = array + source * LENGTH + column;
#pragma unroll 8
        for (int row = 0; row < ROWS; row += STEP) {
            // of_tiles(first + row) is the sum: they share no bits
            const int more = TILES && STEP % 16 ? of_tiles(row) : row;
            const bool inside = source + more < rows && column < columns;
            if (ROWS % STEP == 0 || first + row < ROWS)
                cp_async_16(at + row * TO_ROW, inside ? from + more * LENGTH : array, inside);
        }
    } else
#pragma unroll 1
        for (unsigned i = threadIdx.x; i < ROWS * CHUNKS; i += BLOCK) {
            const unsigned row = i / CHUNKS, column = i % CHUNKS * E, source = TILES ? of_tiles(row) : row;
            const bool inside = (int)source < rows && (int)column < columns;
            cp_async_16(to + row * TO_ROW + column, array + (inside ? source * LENGTH + column : 0), inside);
        }
}

template <class S, class Crew>
__device__ __forceinline__ void fetch_slice(const Workspace<S, Crew>& at, const Weights<typename S::Arithmetic>& w,
                                            int slice) {
    using G = Geometry<S>;
    using T = typename S::T;
    constexpr int BLOCK = Crew::BLOCK;
    T* const to = at.stages + slice % G::STAGES * G::STAGE;
    const int first = (at.rank * G::SLICES + slice) * S::SLICE;
    const int left = S::HIDDEN == G::SLICES * S::SLICE * S::SPLIT ? S::SLICE : S::HIDDEN - first;
    if constexpr (S::EXPAND == POINTWISE || G::MEASURES) {  // the host has put a stem's pairs of halves in order
        constexpr int LENGTH = G::MEASURES ? G::K_PADDED : S::C;
        fetch_rows<BLOCK, S::SLICE, G::K_PADDED, G::X_ROW, LENGTH, !G::FP16>(to + G::W1, w.expand + first * LENGTH,
                                                                             left, LENGTH);
    }
    if constexpr (S::EXPAND == STEM && !G::MEASURES)
        for (int i = threadIdx.x; i < S::SLICE * G::K_PADDED; i += BLOCK) {
            const int place = i / G::K_PADDED, row = G::FP16 ? place : of_tiles(place);
            const int k = i % G::K_PADDED, column = k % 16 / 4 - 1, channel = k % 4;
            const bool inside = row < left && column >= 0 && channel < 3;
            to[place * G::X_ROW + k] =
                inside ? w.expand[((first + row) * 9 + k / 16 * 3 + column) * 3 + channel] : (T)0.0f;
        }
    fetch_rows<BLOCK, G::O_PADDED, S::SLICE, G::D_ROW, S::HIDDEN, true>(to + G::W3, w.project + first, S::O, left);
    fetch_rows<BLOCK, 1, 9 * S::SLICE, 0, 0>(to + G::W2, w.depthwise + first * 9, 1, left * 9);
    const T *const b1 = w.expand_bias ? w.expand_bias : w.depthwise;
    const T *const b2 = w.depthwise_bias ? w.depthwise_bias : w.depthwise;
    if constexpr (S::EXPAND != NONE)
        fetch_rows<BLOCK, 1, S::SLICE, 0, 0>(to + G::B1, b1 + first, w.expand_bias != 0, left);
    fetch_rows<BLOCK, 1, S::SLICE, 0, 0>(to + G::B2, b2 + first, w.depthwise_bias != 0, left);
}

template <class S, class Crew>
__device__ __forceinline__ void prefetch(const Workspace<S, Crew>& at, const Weights<typename S::Arithmetic>& w) {
    using G = Geometry<S>;
#pragma unroll 1
    for (int slice = 0; slice < (G::RESIDENT ? G::SLICES : G::STAGES - 1); ++slice) fetch_slice(at, w, slice);
    cp_async_commit();
}

// The biases of a thread's sums of 16 channels. A product of halves begins with four of them in registers side by side,
// of which two are equal. Where rows are chained they are read twice, so that no compiler knows, and copies two anew
// before each product; elsewhere registers are too few.
template <class S, class Crew>
__device__ __forceinline__ void load_bias(float (&bias)[2][4], const Workspace<S, Crew>& at,
                                          const typename S::T* from) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if constexpr (Geometry<S>::FP16 && S::CHAINED && S::LOOPS && S::EXPAND != STEM) {
            const volatile unsigned* const two = (const volatile unsigned*)(from + half * 8 + 2 * at.t);
#pragma unroll
            for (int p = 0; p < 2; ++p) unpack(bias[half][2 * p], bias[half][2 * p + 1], *two);
        }
        else {
            float two[2];
            get(two, from + (Geometry<S>::FP16 ? half * 8 + 2 * at.t : 4 * at.t + half * 2));
            bias[half][0] = bias[half][2] = two[0], bias[half][1] = bias[half][3] = two[1];
        }
    }
}

// ---- x

// put(pixel, c): of all pixels that are computed and all pieces of their channels, those of this thread.
template <class S, class Crew, class Put>
__device__ __forceinline__ void for_pieces(const Workspace<S, Crew>& at, const Put& put) {
    using G = Geometry<S>;
    constexpr int PIECE = G::A::PIECE, PIECES = S::C / PIECE, STEP = S::THREADS / PIECES;
    if constexpr (S::THREADS % PIECES == 0)
#pragma unroll 2
        for (unsigned pixel = at.thread / PIECES; pixel < G::PIXELS_IN; pixel += STEP)
            put(pixel, at.thread % PIECES * PIECE);
    else
#pragma unroll 1
        for (unsigned i = at.thread; i < G::PIXELS_IN * PIECES; i += S::THREADS) put(i / PIECES, i % PIECES * PIECE);
}

template <class S, class Crew>
__device__ __forceinline__ void fetch_x(const Workspace<S, Crew>& at, const typename S::T* x, const Spot<S>& spot) {
    using G = Geometry<S>;
    if constexpr (S::EXPAND == POINTWISE)
        for_pieces(at, [&](unsigned pixel, unsigned c) {
            unsigned image, row, column;
            G::place(pixel, image, row, column);
            const bool inside = spot.is_inside(image, row, column);
            unsigned from = ((spot.n0 + image) * S::H + spot.y_first() + row) * S::W + spot.x_first() + column;
            if (G::WHOLE_W && S::STRIDE == 1 && (G::WHOLE_H || S::IMAGES == 1))
                from = (spot.n0 * S::H + spot.y_first()) * S::W + pixel;
            from = from * S::C + c;
#pragma unroll
            for (int e = 0; e < G::A::PIECE; e += G::E)
                cp_async_16(at.x_tile + pixel * G::X_ROW + c + e, x + (inside ? from + e : 0), inside);
        });
    cp_async_commit();
}

template <class S, class Crew>
__device__ __forceinline__ void split_x(const Workspace<S, Crew>& at, const Weights<typename S::Arithmetic>& w) {
    for_pieces(at, [&](unsigned pixel, unsigned c) {
        float* const piece = at.x_tile + pixel * Geometry<S>::X_ROW + c;
        float v[8];
        unsigned high[4], low[4];
        get(v, piece);
        split_halves(high, low, v, w.scales.x);
        store_16(piece, make_uint4(high[0], high[1], high[2], high[3]));
        store_16(piece + 4, make_uint4(low[0], low[1], low[2], low[3]));
    });
}

template <class S, class Crew>
__device__ __forceinline__ void make_rows(const Workspace<S, Crew>& at, const Spot<S>& spot) {
    using G = Geometry<S>;
#pragma unroll 1
    for (unsigned pixel = at.thread; pixel < G::PIXELS_IN; pixel += S::THREADS) {
        unsigned image, row, column;
        G::place(pixel, image, row, column);
        const bool inside = spot.is_inside(image, row, column);
        const int there = ((image * G::IN_H + row + G::WHOLE_H) * G::IN_W + G::in_row(column + G::WHOLE_W)) * 8;
        const unsigned patch = S::EXPAND == STEM ? 2 * row * (G::PATCH_ROW / 4) + column * (G::FP16 ? 2 : 1) : 0;
        at.rows[pixel] = there | (inside ? 0 : G::OUTSIDE) | patch << G::PATCH_SHIFT;
    }
}

template <class S, class Crew>
__device__ __forceinline__ void fetch_hidden(const Workspace<S, Crew>& at, const typename S::T* x, const Spot<S>& spot,
                                             int slice) {
    using G = Geometry<S>;
    constexpr int CHUNKS = 16 * G::PLANES / G::E;
#pragma unroll 1
    for (int i = at.warp_p * 32 + at.lane; i < G::PIXELS_HIDDEN * CHUNKS; i += S::WARPS_P * 32) {
        const int pixel = i / CHUNKS, column = pixel % G::IN_W, row = pixel / G::IN_W % G::IN_H;
        const int n = spot.n0 + pixel / (G::IN_W * G::IN_H), chunk = i % CHUNKS * G::E;
        const int c = (at.rank * G::SLICES + slice) * S::SLICE + at.warp_c * G::PLANES * 16 + chunk;
        const int y = spot.y0 + row, column_of_x = spot.x0 + column;
        const bool inside = n < spot.N && (unsigned)y < S::H && (unsigned)column_of_x < S::W && c < S::C;
        const int half_plane = at.warp_c * G::PLANES * 2 + chunk / 8, place = pixel - column + G::in_row(column);
        cp_async_16(at.hidden + half_plane * G::HALF_PLANE + place * 8 + chunk % 8,
                    x + (inside ? ((n * S::H + y) * S::W + column_of_x) * S::C + c : 0), inside);
    }
    cp_async_commit();
}

template <class S, class Crew> __device__ __forceinline__ void clear(const Workspace<S, Crew>& at) {
    using G = Geometry<S>;
    if (!Crew::works(at.team)) return;
    const uint4 zero = make_uint4(0, 0, 0, 0);
    constexpr int FROM = S::EXPAND == NONE ? G::H_SIZE : 0, E = G::E;
#pragma unroll 1
    for (int i = FROM / E + at.thread; i < (G::H_SIZE + G::D_SIZE) / E; i += S::THREADS) ((uint4*)at.hidden)[i] = zero;
    if constexpr (S::EXPAND != NONE)
#pragma unroll 1
        for (int i = G::PIXELS_IN + at.thread; i < G::M_IN * 16 * !S::CHAINED; i += S::THREADS)
            at.rows[i] = (G::PIXELS_HIDDEN + i - G::PIXELS_IN) * 8;
    if constexpr (S::EXPAND == POINTWISE) {
#pragma unroll 1
        for (int i = G::PIXELS_IN * G::X_ROW / E + at.thread; i < G::X_SIZE / E; i += S::THREADS)
            ((uint4*)at.x_tile)[i] = zero;
        constexpr int EXTRA = (G::K_PADDED - S::C) / E, SOME = larger(EXTRA, 1);
#pragma unroll 1
        for (int i = at.thread; i < G::PIXELS_IN * EXTRA; i += S::THREADS)
            *(uint4*)(at.x_tile + i / SOME * G::X_ROW + S::C + i % SOME * E) = zero;
    }
}
