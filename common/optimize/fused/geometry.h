// geometry.h - how large everything of a fused block is, and which pixel lies where: known when it is compiled.
//
//   Geometry<S>     S: a struct of numbers that generate.py writes; its Tile says what they are
//   Spot<S>         where a tile lies in the images
//
//        IN_W, of which REAL_W are computed
//     ┌─────────────────────┐
//     │ halo                │  IN_H, of which REAL_H are computed: if a tile is as high as the image, what lies above
//     │   ┌─────────────┐   │  and below it is zero, and stays so (CHAINED: it is computed)
//     │   │ TILE_H      │   │
//     │   │   × TILE_W  │   │  shared memory, in elements:
//     │   └─────────────┘   │  x tile [M_IN·16][X_ROW] · table of rows · hidden [planes][2][HALF_PLANE] · dw
//     └─────────────────────┘  [M_OUT·16][D_ROW] · STAGES × a slice of all weights
#pragma once
#include "fused/arithmetic.h"

enum Expand { NONE, POINTWISE, STEM };  // what makes the hidden channels: x itself, a 1×1 convolution, 3×3 of stride 2

template <class S> struct Geometry {
    using T = typename S::T;
    using A = typename S::Arithmetic;
    static constexpr bool FP16 = sizeof(T) == 2;
    static constexpr int E = 16 / sizeof(T);                      // elements in 16 bytes
    static constexpr int WARPS = S::THREADS / 32, V = S::VECTOR;  // V: channels of a lane of depthwise; 0: tensor cores
    static constexpr int WARPS_C = WARPS / S::WARPS_P;            // warps side by side along the channels
    static constexpr int PLANES = S::SLICE / 16 / WARPS_C;        // 16 hidden channels of all pixels each, of a warp
    static constexpr int OUT_H = (S::H - 1) / S::STRIDE + 1, OUT_W = (S::W - 1) / S::STRIDE + 1;
    static constexpr int TILES_H = ceil_div(OUT_H, S::TILE_H), TILES_W = ceil_div(OUT_W, S::TILE_W);

    // ---- Pixels. The hidden pixels that a tile needs; all of the image, without a halo, if the tile is all of it.
    static constexpr int IN_H = (S::TILE_H - 1) * S::STRIDE + 3, IN_W = (S::TILE_W - 1) * S::STRIDE + 3;
    static constexpr bool WHOLE_H = S::TILE_H == OUT_H && !S::CHAINED, WHOLE_W = S::TILE_W == OUT_W && !S::CHAINED;
    static constexpr int REAL_H = WHOLE_H ? S::H : IN_H, REAL_W = WHOLE_W ? S::W : IN_W;
    static constexpr int PIXELS_IN = S::IMAGES * REAL_H * REAL_W, M_IN = ceil_div(PIXELS_IN, 16);
    static constexpr int PIXELS_OUT = S::IMAGES * S::TILE_H * S::TILE_W, M_OUT = ceil_div(PIXELS_OUT, 16);
    static constexpr bool SLIDES = S::CHAINED && (S::STRIDE == 1 || !FP16);  // as sliding.h does it, else as chained.h
    static constexpr int STRIPS = S::TILE_H / S::STRIP, COLUMNS = S::IMAGES * STRIPS * S::TILE_W;  // of depthwise

    // ---- Channels. A stem's products: under each of three rows of taps 4 pixels of 4 channels, the first pixel and
    // the last channel times 0.
    static constexpr int K_PADDED = S::EXPAND == STEM ? 48 : ceil_div(S::C, A::K) * A::K, K_STEPS = K_PADDED / A::K;
    static constexpr int SLICES = ceil_div(S::HIDDEN, S::SLICE * S::SPLIT);  // of one block
    static constexpr int O_PADDED = ceil_div(S::O, 16) * 16, PAIRS = O_PADDED / 16;
    // how the warps share project's tiles; whether a warp holds its weights of expand in registers
    static constexpr int M3 = WARPS / S::WARPS_N3, MT3 = ceil_div(M_OUT, M3), PAIRS3 = ceil_div(PAIRS, S::WARPS_N3);
    static constexpr bool HELD = K_STEPS * PLANES * (FP16 ? 1 : 2) <= 12;

    // ---- Shared memory
    // rows are an odd number of 16 bytes: 8 of them begin in 8 different groups of banks
    __host__ __device__ static constexpr int odd(int elements) { return ((elements / E) | 1) * E; }
    static constexpr int X_ROW = odd(K_PADDED), D_ROW = odd(S::SLICE);
    // Where every other pixel of a row is read at once (at stride 2, and where rows of x slide), the even ones lie
    // first, side by side, ODD the first odd one. EVENS of them lie in the image.
    static constexpr bool APART = S::STRIDE == 2 || (SLIDES && S::EXPAND == POINTWISE);
    static constexpr int ODD = APART ? ceil_div(IN_W, 2) : 1, EVENS = WHOLE_W ? REAL_W / 2 : ODD;
    // Hidden pixels are stored 8 channels at a time, two such halves of a plane 64 bytes apart in the banks; behind
    // them is room for the rows that fill up expand's last tile of mma.
    static constexpr int PIXELS_HIDDEN = S::IMAGES * IN_H * IN_W, FILLED = S::EXPAND ? M_IN * 16 - PIXELS_IN : 0;
    static constexpr int PLACES = PIXELS_HIDDEN + FILLED, UNIT = 16 / sizeof(T);
    static constexpr int HALF_PLANE = (ceil_div(PLACES - UNIT / 2, UNIT) * UNIT + UNIT / 2) * 8, PLANE = 2 * HALF_PLANE;
    // A stem's inputs: pixels of the image from an even column on, 4 channels each, the last one 0; of floats, of which
    // a pixel is 16 bytes, the even ones of a row first: neighbouring hidden pixels need every other one. As pairs of
    // halves (MEASURES, image.h) the high ones of a row first, then the low ones. Of halves, behind them a row has as
    // many pixels more as take the first hidden pixel of a row to the banks that follow those of the last one in the
    // row above.
    static constexpr bool MEASURES = S::EXPAND == STEM && A::PIECE != E;
    static constexpr int PATCH_H = 2 * REAL_H + 1, PATCH_W = 2 * REAL_W + 2;
    static constexpr int PATCH_MORE = MEASURES ? (REAL_W / 2 - PATCH_W) & 3 : FP16 ? (REAL_W - PATCH_W) & 6 : 0;
    static constexpr int PATCH_ROW = (PATCH_W + PATCH_MORE) * 4;
    static constexpr int PATCH_ODD = PATCH_W * 2, PATCH_LOW = PATCH_W * 2;
    static constexpr int PATCH_PAIRS = PATCH_W / 2, PATCH_ITEMS = PATCH_H * PATCH_PAIRS;  // pairs of pixels
    // where the rows of every other hidden pixel are read at once, every other pair comes first
    __host__ __device__ static constexpr unsigned pair_at(unsigned i) {
        return SLIDES && (FP16 || MEASURES) ? i / 2 + i % 2 * ceil_div(PATCH_PAIRS, 2) : i;
    }
    static constexpr int MAXIMA = MEASURES ? ceil_div(WARPS, E) * E : 0;  // a number of each warp, behind the pixels
    static constexpr int X_OF_STEM = S::EXPAND == STEM ? PATCH_H * PATCH_ROW + MAXIMA : 0;
    static constexpr int X_SIZE = S::EXPAND == POINTWISE ? (S::CHAINED ? PIXELS_IN : M_IN * 16) * X_ROW : X_OF_STEM;
    static constexpr int ROWS_BYTES = S::EXPAND && !S::CHAINED ? M_IN * 16 * 4 : 0;
    static constexpr int ROWS_SIZE = ROWS_BYTES / (int)sizeof(T);
    static constexpr int H_SIZE = S::CHAINED ? 0 : WARPS_C * PLANES * PLANE, D_SIZE = M_OUT * 16 * D_ROW;
    // depthwise on tensor cores takes 16 columns at a time: where there are fewer, lanes write what nobody reads
    static constexpr bool SPARE = V == 0 && (COLUMNS % 16 || SLIDES);
    static constexpr int SPARE_SIZE = SPARE ? S::THREADS * 8 : 0;
    static constexpr int TILES_SIZE = X_SIZE + ROWS_SIZE + H_SIZE + D_SIZE + SPARE_SIZE;
    static constexpr int TILES_BYTES = ceil_div(TILES_SIZE * (int)sizeof(T), 16) * 16;
    // one slice of all weights: where each of them begins, and how many elements they are
    static constexpr int W1 = 0, W3 = S::EXPAND ? S::SLICE * X_ROW : 0, W2 = W3 + O_PADDED * D_ROW;
    static constexpr int B1 = W2 + 9 * S::SLICE, B2 = B1 + S::SLICE, STAGE = B2 + S::SLICE;
    static constexpr bool RESIDENT = SLICES <= S::STAGES;  // all of them fit: they are fetched once
    // a thread reads the weights of expand, if chained also of depthwise, once: it does so while x is on its way
    static constexpr bool ONCE =
        !S::LOOPS && SLICES == 1 && S::EXPAND == POINTWISE && (S::CHAINED ? PLANES == 1 : HELD);
    static constexpr int STAGES = RESIDENT ? SLICES : S::STAGES, WEIGHTS = STAGES * STAGE * (int)sizeof(T);
    // of a cluster: quarters are 4 neighbouring channels of a pixel; a block adds up PART of them
    static constexpr int QUARTERS = PIXELS_OUT * O_PADDED / 4, PART = ceil_div(QUARTERS, S::SPLIT);
    static constexpr int SUMS_BYTES = S::SPLIT > 1 ? S::SPLIT * PART * 16 : 0;

    static_assert(WARPS % S::WARPS_P == 0 && S::SLICE % (16 * WARPS_C) == 0, "tile");
    static_assert(WARPS % S::WARPS_N3 == 0 && S::TILE_H % S::STRIP == 0, "tile");
    static_assert(!S::CHAINED || S::EXPAND == POINTWISE || (S::EXPAND == STEM && S::STRIDE == 1), "tile");
    static_assert(!S::CHAINED || !FP16 || V == 0, "tile");

    // ---- The table of rows says of a pixel of x where its hidden channels go to, in elements of a half plane, and
    // where a stem's inputs begin, in fours of elements; negative if it lies outside of the image, where its hidden
    // channels are zero.
    static constexpr int PLACE = 0x7fff, PATCH_SHIFT = 15, PATCH = 0xffff, OUTSIDE = -0x7fffffff - 1;
    static_assert(PLACES * 8 <= PLACE + 1 && (S::EXPAND != STEM || PATCH_H * PATCH_ROW / 4 <= PATCH), "too large");

    __host__ __device__ static constexpr unsigned in_row(unsigned column) {
        return APART ? column / 2 + column % 2 * ODD : column;
    }
    // Unsigned, here and below: to divide by a constant is then two instructions and not five.
    __device__ __forceinline__ static void place(unsigned pixel, unsigned& image, unsigned& row, unsigned& column) {
        column = pixel % REAL_W, row = pixel / REAL_W, image = 0;
        if constexpr (APART) column = column < EVENS ? 2 * column + WHOLE_W : 2 * (column - EVENS) + !WHOLE_W;
        if constexpr (S::IMAGES > 1) image = row / REAL_H, row %= REAL_H;
    }
    // Of a column of depthwise: the place of its first hidden pixel, and its first pixel of dw.
    __device__ __forceinline__ static void column(unsigned i, unsigned& from, unsigned& to) {
        const unsigned x = i % S::TILE_W, strip = i / S::TILE_W % STRIPS, image = i / (S::TILE_W * STRIPS);
        from = (image * IN_H + strip * S::STRIP * S::STRIDE) * IN_W + x;
        to = (image * S::TILE_H + strip * S::STRIP) * S::TILE_W + x;
    }
    // Where rows of dw are stored two apart, the outputs of even columns come first in each row.
    static constexpr bool DW_APART = FP16 && SLIDES && S::TILE_W % 2 == 0;
    __host__ __device__ static constexpr unsigned dw_at(unsigned column) {
        return DW_APART ? column / 2 + column % 2 * (S::TILE_W / 2) : column;
    }
    __device__ __forceinline__ static unsigned column_out(unsigned pixel) {
        const unsigned i = pixel % S::TILE_W;
        return !DW_APART ? i : i < S::TILE_W / 2 ? 2 * i : 2 * i - (S::TILE_W - 1);
    }
    // Of an output pixel: the pixel of x's tile under it; where its channels begin in y, counted from the tile's first.
    __device__ __forceinline__ static unsigned pixel_in(unsigned pixel) {
        if (WHOLE_H && WHOLE_W) return pixel;
        const unsigned row = pixel / S::TILE_W, image = S::IMAGES == 1 ? 0 : row / S::TILE_H;
        return (image * REAL_H + row - image * S::TILE_H + !WHOLE_H) * REAL_W + in_row(column_out(pixel) + !WHOLE_W);
    }
    __device__ __forceinline__ static unsigned place_out(unsigned pixel) {
        if (S::TILE_W == OUT_W && (S::IMAGES == 1 || S::TILE_H == OUT_H) && !DW_APART) return pixel * S::O;
        unsigned row = pixel / S::TILE_W;
        if (S::IMAGES > 1) row = row / S::TILE_H * OUT_H + row % S::TILE_H;
        return (row * OUT_W + column_out(pixel)) * S::O;
    }
};

// Where a tile lies: its first image, its first output pixel, and the first hidden pixel that it needs.
template <class S> struct Spot {
    using G = Geometry<S>;
    int N, ox0, oy0, n0, y0, x0;
    __device__ __forceinline__ Spot(int tile, int N)
        : N(N), ox0(tile % G::TILES_W * S::TILE_W), oy0(tile / G::TILES_W % G::TILES_H * S::TILE_H),
          n0(tile / (G::TILES_W * G::TILES_H) * S::IMAGES), y0(oy0 * S::STRIDE - 1), x0(ox0 * S::STRIDE - 1) {}
    __device__ __forceinline__ int y_first() const { return G::WHOLE_H ? 0 : y0; }
    __device__ __forceinline__ int x_first() const { return G::WHOLE_W ? 0 : x0; }
    __device__ __forceinline__ int first_out() const { return ((n0 * G::OUT_H + oy0) * G::OUT_W + ox0) * S::O; }
    // Whether a hidden pixel that is computed lies in an image.
    __device__ __forceinline__ bool is_inside(unsigned image, unsigned row, unsigned column) const {
        return (S::IMAGES == 1 || n0 + image < N) && (G::WHOLE_H || y0 + row < S::H) &&
               (G::WHOLE_W || x0 + column < S::W);
    }
    // Whether an output pixel of the tile, of all that the warps' tiles of mma hold, lies in an image.
    __device__ __forceinline__ bool is_out(unsigned pixel) const {
        return (G::MT3 * G::M3 * 16 == G::PIXELS_OUT || pixel < G::PIXELS_OUT) &&
               (S::IMAGES == 1 || n0 + pixel / (S::TILE_W * S::TILE_H) < N) &&
               (G::OUT_H % S::TILE_H == 0 || oy0 + pixel / S::TILE_W % S::TILE_H < G::OUT_H) &&
               (G::OUT_W % S::TILE_W == 0 || ox0 + G::column_out(pixel) < G::OUT_W);
    }
};
