// inverted_residual.h - a whole inverted-residual block of MobileNetV2 on one SM: hidden activations never leave it.
//
//   Fused<S> block(shared);         S: a struct of compile-time numbers, which generate.py writes (Tile says what they are)
//   block.prefetch(w);              the first slices of the weights are on their way: needs nothing of the kernel before
//   block.open();                   of a cluster: then cluster_started or cluster_sync
//   block.run(x, w, residual, y, N, first, step);      tiles first, first + step, …
//
// A thread block takes a tile of TILE_H×TILE_W output pixels of IMAGES images and holds its x, with a halo, in shared memory.
// It walks over the hidden channels, SLICE at a time. A depthwise convolution mixes no channels, so a warp expands and
// convolves 16·PLANES channels of its own, all pixels of them, and waits for nobody (or WARPS_P warps share the pixels):
//
//     x tile  ──expand (mma)──►  hidden, of a warp  ──depthwise──►       dw slice  ──project (mma)──►  sums in registers
//     shared                     shared                                   shared
//
// Only project needs the channels of all warps: two barriers a slice. y is written when the last slice is in. With SPLIT > 1
// a cluster of SPLIT blocks shares a tile: each takes its part of the hidden channels, and at the end sends its sums where they
// are added up, each block's part of the outputs in its own shared memory. All of them must have started by then.
//
// What is spent where:  tensor cores   expand and project: C·hidden and hidden·O multiply-accumulates a pixel; of halves also the
//                                      depthwise, as products with diagonal matrices
//                       issue slots    depthwise of floats: 9 FMA an element; bias, clamp and store of the hidden channels
//                       shared memory  x tile + hidden slice + dw slice + STAGES slices of weights; x is read once
//                       registers      TILE pixels × O sums, over all threads; a warp's weights of expand
#pragma once
#include "cluster.h"
#include "grid.h"
#include "ptx.h"
#include "vec.h"

// What a bound of infinity asks for costs nothing: bounds are known when this is compiled.
constexpr float LARGEST = 3.402823466e+38f;
__device__ __forceinline__ float bounded(float x, float low, float high) {
    if (low < -LARGEST && high > LARGEST) return x;
    return clamp(x, low, high);
}
__device__ __forceinline__ unsigned bounded_halves(float a, float b, float low, float high) {  // rounded first: then two at a time
    unsigned two = low == 0.0f ? pack_relu(a, b) : pack(a, b);
    if (low != 0.0f && low >= -LARGEST) two = max_halves(two, pack(low, low));
    if (high <= LARGEST) two = min_halves(two, pack(high, high));
    return two;
}

enum Expand { NONE, POINTWISE, STEM };  // what makes the hidden channels: x itself, a 1×1 convolution, 3×3 of stride 2 on 3 channels

template <class T> struct Weights {  // as PyTorch has them, in NHWC: (hidden, C), (hidden, 9), (O, hidden); biases or 0
    const T *expand, *expand_bias, *depthwise, *depthwise_bias, *project, *project_bias;
    float low[3], high[3];  // what each of the three is clamped to
};

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
__host__ __device__ constexpr int smaller(int a, int b) { return a < b ? a : b; }
__host__ __device__ constexpr int larger(int a, int b) { return a > b ? a : b; }

// d += a·b over 32 bytes of channels: 16 halves, or 8 floats as three products of tf32 parts (pointwise, rung 4).
__device__ __forceinline__ void split_tf32(unsigned x, unsigned& high, unsigned& low) {
    high = (x + 0x1000u) & 0xffffe000u;
    low = __float_as_uint(__uint_as_float(x) - __uint_as_float(high));
}
template <bool HALVES> struct Rows {  // a's fragment, ready for many products
    unsigned high[4], low[HALVES ? 1 : 4];
    __device__ __forceinline__ void split() {
        if constexpr (!HALVES)
#pragma unroll
            for (int i = 0; i < 4; ++i) split_tf32(high[i], high[i], low[i]);
    }
};
template <bool HALVES> struct Columns {  // b's fragments of two neighbouring tiles of 8 columns
    unsigned high[4], low[HALVES ? 1 : 4];
    __device__ __forceinline__ void load(const void* row) {
        ldmatrix_x4(high, row);
        if constexpr (!HALVES)
#pragma unroll
            for (int i = 0; i < 4; ++i) split_tf32(high[i], high[i], low[i]);
    }
    __device__ __forceinline__ void multiply(float (&d)[2][4], const Rows<HALVES>& a, const float (*c)[4] = 0) const {
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
            const unsigned b[2] = {high[2 * tile], high[2 * tile + 1]};
            if constexpr (HALVES) {
                if (c) mma_f16(d[tile], a.high, b, c[tile]);
                else mma_f16(d[tile], a.high, b);
            }
            else {
                mma_tf32(d[tile], a.low, b);
                mma_tf32(d[tile], a.high, {low[2 * tile], low[2 * tile + 1]});
                mma_tf32(d[tile], a.high, b);
            }
        }
    }
};

template <bool HALVES> struct TwoOf { using type = unsigned; };  // two neighbours of an image's inputs
template <> struct TwoOf<false> { using type = float2; };

struct Nothing {
    __device__ __forceinline__ void operator()() const {}
};

// A kernel of many blocks one after the other gives its block BLOCK threads. TEAMS teams of S::THREADS of them then take a
// tile each, with the same weights; what is left over only comes to the barriers. MAIL: a cluster's sums are sent through a
// mailbox, and not put where they belong and waited for at the cluster's barrier.
template <class S, int BLOCK = S::THREADS, int TEAMS = 1, bool MAIL = true> struct Fused {
    using T = typename S::T;
    static constexpr bool HALVES = sizeof(T) == 2;
    using Two = typename TwoOf<HALVES>::type;
    static constexpr int E = 16 / sizeof(T), K_STEP = 2 * E;  // elements in 16 bytes; channels of one mma
    static constexpr int WARPS = S::THREADS / 32, V = S::VECTOR;  // V: channels that a thread convolves at a time; 0: tensor cores do
    static constexpr int WARPS_C = WARPS / S::WARPS_P;            // warps side by side along the channels
    static constexpr int PLANES = S::SLICE / 16 / WARPS_C;        // 16 hidden channels of all pixels each, of a warp
    static constexpr int OUT_H = (S::H - 1) / S::STRIDE + 1, OUT_W = (S::W - 1) / S::STRIDE + 1;
    static constexpr int TILES_H = ceil_div(OUT_H, S::TILE_H), TILES_W = ceil_div(OUT_W, S::TILE_W);
    // the hidden pixels that a tile needs; all of the image, without a halo, if the tile is all of it
    static constexpr int IN_H = (S::TILE_H - 1) * S::STRIDE + 3, IN_W = (S::TILE_W - 1) * S::STRIDE + 3;
    static constexpr bool WHOLE_H = S::TILE_H == OUT_H, WHOLE_W = S::TILE_W == OUT_W;
    static constexpr int REAL_H = WHOLE_H ? S::H : IN_H, REAL_W = WHOLE_W ? S::W : IN_W;
    static constexpr int PIXELS_IN = S::IMAGES * REAL_H * REAL_W, M_IN = ceil_div(PIXELS_IN, 16);
    static constexpr int PIXELS_OUT = S::IMAGES * S::TILE_H * S::TILE_W, M_OUT = ceil_div(PIXELS_OUT, 16);
    static constexpr int STRIPS = S::TILE_H / S::STRIP, COLUMNS = S::IMAGES * STRIPS * S::TILE_W;  // of depthwise
    // a stem's products: under each of three rows of taps 4 pixels of 4 channels, the first pixel and the last channel times 0
    static constexpr int K_PADDED = S::EXPAND == STEM ? 48 : ceil_div(S::C, K_STEP) * K_STEP;
    static constexpr int SLICES = ceil_div(S::HIDDEN, S::SLICE * S::SPLIT);  // of one block
    static constexpr int O_PADDED = ceil_div(S::O, 16) * 16, PAIRS = O_PADDED / 16;
    // rows of shared memory are an odd number of 16 bytes: 8 of them begin in 8 different groups of banks
    __host__ __device__ static constexpr int odd(int elements) { return ((elements / E) | 1) * E; }
    static constexpr int X_ROW = odd(K_PADDED), D_ROW = odd(S::SLICE);
    // hidden pixels are stored 8 channels at a time, two such halves of a plane 64 bytes apart in the banks; behind them is room
    // for the rows that fill up expand's last tile of mma
    // At stride 2 neighbouring outputs need every other pixel of a row: the even ones lie first, side by side, ODD the first odd one.
    static constexpr int ODD = S::STRIDE == 2 ? S::TILE_W + 1 : 1, EVENS = WHOLE_W ? REAL_W / 2 : ODD;  // those of the image
    static constexpr int PIXELS_HIDDEN = S::IMAGES * IN_H * IN_W, PLACES = PIXELS_HIDDEN + (S::EXPAND ? M_IN * 16 - PIXELS_IN : 0), UNIT = 16 / sizeof(T);
    static constexpr int HALF_PLANE = (ceil_div(PLACES - UNIT / 2, UNIT) * UNIT + UNIT / 2) * 8, PLANE = 2 * HALF_PLANE;
    // a stem's inputs: pixels of the image from an even column on, 4 channels each, the last one 0;
    // of floats, of which a pixel is 16 bytes, the even ones of a row first: neighbouring hidden pixels need every other one
    static constexpr int PATCH_H = 2 * REAL_H + 1, PATCH_W = 2 * REAL_W + 2, PATCH_ROW = PATCH_W * 4, PATCH_ODD = PATCH_ROW / 2;
    static constexpr int X_SIZE = S::EXPAND == POINTWISE ? M_IN * 16 * X_ROW : S::EXPAND == STEM ? PATCH_H * PATCH_ROW : 0;
    static constexpr int ROWS_BYTES = S::EXPAND ? M_IN * 16 * 4 : 0, ROWS_SIZE = ROWS_BYTES / (int)sizeof(T);
    static constexpr int H_SIZE = WARPS_C * PLANES * PLANE, D_SIZE = M_OUT * 16 * D_ROW;
    static constexpr int W1 = 0, W3 = S::EXPAND ? S::SLICE * X_ROW : 0, W2 = W3 + O_PADDED * D_ROW, B1 = W2 + 9 * S::SLICE, B2 = B1 + S::SLICE;
    static constexpr int STAGE = B2 + S::SLICE;  // elements of one slice of all weights
    static constexpr bool RESIDENT = SLICES <= S::STAGES;  // all of them fit: they are fetched once
    static constexpr int STAGES = RESIDENT ? SLICES : S::STAGES;
    // of a cluster: quarters are 4 neighbouring channels of a pixel; a block adds up PART of them
    static constexpr int QUARTERS = PIXELS_OUT * O_PADDED / 4, PART = ceil_div(QUARTERS, S::SPLIT);
    // depthwise on tensor cores takes 16 columns at a time; where there are fewer, lanes write 16 bytes that nobody reads
    static constexpr int SPARE_SIZE = V == 0 && COLUMNS % 16 ? S::THREADS * 8 : 0;
    static constexpr int TILES_BYTES = ceil_div((X_SIZE + ROWS_SIZE + H_SIZE + D_SIZE + SPARE_SIZE) * (int)sizeof(T), 16) * 16;
    static constexpr int WORK = TILES_BYTES + (S::SPLIT > 1 ? S::SPLIT * PART * 16 + (MAIL ? 16 : 0) : 0), SHARED = WORK + STAGES * STAGE * (int)sizeof(T);
    // how the warps share project's tiles; whether a warp holds its weights of expand in registers
    static constexpr int M3 = WARPS / S::WARPS_N3, MT3 = ceil_div(M_OUT, M3), PAIRS3 = ceil_div(PAIRS, S::WARPS_N3);
    static constexpr int K_STEPS = K_PADDED / K_STEP;
    static constexpr bool HELD = K_STEPS * PLANES * (HALVES ? 1 : 2) <= 12;
    static_assert(WARPS % S::WARPS_P == 0 && S::SLICE % (16 * WARPS_C) == 0 && WARPS % S::WARPS_N3 == 0 && S::TILE_H % S::STRIP == 0, "tile");
    static_assert(!MAIL || (BLOCK == S::THREADS && TEAMS == 1), "a thread block has one mailbox");

    // of a pixel of x: where its hidden channels go to, in elements of a half plane, and where a stem's inputs begin, in pixels;
    // negative if it lies outside of the image: then its hidden channels are zero
    static constexpr int PLACE = 0x7fff, PATCH_SHIFT = 15, PATCH = 0xffff, OUTSIDE = -0x7fffffff - 1;
    __host__ __device__ static constexpr unsigned in_row(unsigned column) { return S::STRIDE == 1 ? column : column / 2 + column % 2 * ODD; }
    static_assert(PLACES * 8 <= PLACE + 1 && (S::EXPAND != STEM || PATCH_H * PATCH_W <= PATCH), "too large a tile");

    T *x_tile, *hidden, *dw, *spare, *stages;
    int* rows;
    float4* sums;  // [SPLIT][PART]: of this block's part of the outputs, from each block of the cluster
    Mailbox* box;  // that they come through
    unsigned turn = 0;
    int lane, g, t, warp, warp_c, warp_p, rank, thread, team, rank_of_first;

    __device__ __forceinline__ explicit Fused(void* shared, unsigned rank_in_cluster = 0) : Fused(shared, (char*)shared + WORK, rank_in_cluster) {}
    // work: TEAMS·WORK bytes; weights: WEIGHTS bytes. In a cluster of more than SPLIT blocks those from rank first_of_split on share a tile.
    static constexpr int WEIGHTS = STAGES * STAGE * (int)sizeof(T);
    __device__ __forceinline__ Fused(void* work, void* weights, unsigned rank_in_split, unsigned first_of_split = 0) {
        thread = BLOCK == S::THREADS ? threadIdx.x : threadIdx.x % S::THREADS, team = BLOCK == S::THREADS ? 0 : threadIdx.x / S::THREADS;
        x_tile = (T*)((char*)work + team * WORK), rows = (int*)(x_tile + X_SIZE), hidden = x_tile + X_SIZE + ROWS_SIZE, dw = hidden + H_SIZE, spare = dw + D_SIZE + (V == 0 && COLUMNS % 16 ? thread * 8 : 0), sums = (float4*)((char*)x_tile + TILES_BYTES), box = (Mailbox*)(sums + S::SPLIT * PART);
        stages = (T*)weights;
        lane = thread % 32, g = lane / 4, t = lane % 4, warp = thread / 32, rank = rank_in_split, rank_of_first = first_of_split;
        warp_c = warp % WARPS_C, warp_p = warp / WARPS_C;
    }

    __device__ __forceinline__ void open() {
        if (S::SPLIT > 1 && MAIL && thread == 0) box->open();
    }

    // ---- Weights: SLICE hidden channels from `first` on, to a stage
    // Of 16 rows that column_of_lane reads those for its first tile come first: 8 rows that are read together lie side by side.
    __host__ __device__ static constexpr int of_tiles(int row) { return (row & ~15) + row % 8 / 2 * 4 + row / 8 % 2 * 2 + row % 2; }
    template <int ROWS, int COLUMNS, int TO_ROW, int LENGTH, bool TILES = false>  // rows of COLUMNS elements, LENGTH apart, of which so many are there
    __device__ __forceinline__ static void fetch(T* to, const T* array, int rows, int columns) {
        constexpr int CHUNKS = ceil_div(COLUMNS, E), STEP = BLOCK / CHUNKS;
        if constexpr (BLOCK % CHUNKS == 0 && (!TILES || STEP % 16 == 0 || 16 % STEP == 0)) {
            // a thread has the same columns of all its rows: what it adds to addresses is constant
            const int first = threadIdx.x / CHUNKS, column = threadIdx.x % CHUNKS * E, source = TILES ? of_tiles(first) : first;
            T* const at = to + first * TO_ROW + column;
            const T* const from = array + source * LENGTH + column;
#pragma unroll 8
            for (int row = 0; row < ROWS; row += STEP) {
                const int more = TILES && STEP % 16 ? of_tiles(row) : row;  // of_tiles(first + row) is the sum: they share no bits
                const bool inside = source + more < rows && column < columns;
                if (ROWS % STEP == 0 || first + row < ROWS) cp_async_16(at + row * TO_ROW, inside ? from + more * LENGTH : array, inside);
            }
        } else
#pragma unroll 1
            for (unsigned i = threadIdx.x; i < ROWS * CHUNKS; i += BLOCK) {
                const unsigned row = i / CHUNKS, column = i % CHUNKS * E, source = TILES ? of_tiles(row) : row;
                const bool inside = (int)source < rows && (int)column < columns;
                cp_async_16(to + row * TO_ROW + column, array + (inside ? source * LENGTH + column : 0), inside);
            }
    }
    __device__ __forceinline__ void fetch_slice(const Weights<T>& w, int slice) {
        T* const to = stages + slice % STAGES * STAGE;
        const int first = (rank * SLICES + slice) * S::SLICE, left = S::HIDDEN == SLICES * S::SLICE * S::SPLIT ? S::SLICE : S::HIDDEN - first;
        if constexpr (S::EXPAND == POINTWISE) fetch<S::SLICE, K_PADDED, X_ROW, S::C, !HALVES>(to + W1, w.expand + first * S::C, left, S::C);
        if constexpr (S::EXPAND == STEM)
            for (int i = threadIdx.x; i < S::SLICE * K_PADDED; i += BLOCK) {
                const int place = i / K_PADDED, row = HALVES ? place : of_tiles(place), k = i % K_PADDED, column = k % 16 / 4 - 1, channel = k % 4;
                const bool inside = row < left && column >= 0 && channel < 3;
                to[place * X_ROW + k] = inside ? w.expand[((first + row) * 9 + k / 16 * 3 + column) * 3 + channel] : (T)0.0f;
            }
        fetch<O_PADDED, S::SLICE, D_ROW, S::HIDDEN, true>(to + W3, w.project + first, S::O, left);
        fetch<1, 9 * S::SLICE, 0, 0>(to + W2, w.depthwise + first * 9, 1, left * 9);
        const T *const b1 = w.expand_bias ? w.expand_bias : w.depthwise, *const b2 = w.depthwise_bias ? w.depthwise_bias : w.depthwise;
        if constexpr (S::EXPAND != NONE) fetch<1, S::SLICE, 0, 0>(to + B1, b1 + first, w.expand_bias != 0, left);
        fetch<1, S::SLICE, 0, 0>(to + B2, b2 + first, w.depthwise_bias != 0, left);
    }
    __device__ __forceinline__ void prefetch(const Weights<T>& w) {
#pragma unroll 1
        for (int slice = 0; slice < (RESIDENT ? SLICES : STAGES - 1); ++slice) fetch_slice(w, slice);
        cp_async_commit();
    }

    // ---- x: the pixels of a tile, channels side by side; zeros where there is no image
    // Unsigned, here and below: to divide by a constant is then two instructions and not five.
    __device__ __forceinline__ static void place(unsigned pixel, unsigned& image, unsigned& row, unsigned& column) {
        column = pixel % REAL_W, row = pixel / REAL_W, image = 0;
        if constexpr (S::STRIDE == 2) column = column < EVENS ? 2 * column + WHOLE_W : 2 * (column - EVENS) + !WHOLE_W;
        if constexpr (S::IMAGES > 1) image = row / REAL_H, row %= REAL_H;
    }
    __device__ __forceinline__ static bool is_inside(unsigned image, unsigned row, unsigned column, int N, int n0, int y_first, int x_first) {
        return (S::IMAGES == 1 || n0 + image < N) && (WHOLE_H || y_first + row < S::H) && (WHOLE_W || x_first + column < S::W);
    }
    __device__ __forceinline__ void fetch_x(const T* x, int N, int n0, int y0, int x0) {
        const int y_first = WHOLE_H ? 0 : y0, x_first = WHOLE_W ? 0 : x0;
        if constexpr (S::EXPAND == POINTWISE) {
            constexpr int CHUNKS = S::C / E, STEP = S::THREADS / CHUNKS;
            const auto fetch_chunk = [&](unsigned pixel, unsigned c) {
                unsigned image, row, column;
                place(pixel, image, row, column);
                const bool inside = is_inside(image, row, column, N, n0, y_first, x_first), in_line = WHOLE_W && S::STRIDE == 1 && (WHOLE_H || S::IMAGES == 1);
                const unsigned at = (in_line ? (n0 * S::H + y_first) * S::W + pixel : ((n0 + image) * S::H + y_first + row) * S::W + x_first + column) * S::C + c;
                cp_async_16(x_tile + pixel * X_ROW + c, x + (inside ? at : 0), inside);
            };
            if constexpr (S::THREADS % CHUNKS == 0)
#pragma unroll 2
                for (unsigned pixel = thread / CHUNKS; pixel < PIXELS_IN; pixel += STEP) fetch_chunk(pixel, thread % CHUNKS * E);
            else
#pragma unroll 1
                for (unsigned i = thread; i < PIXELS_IN * CHUNKS; i += S::THREADS) fetch_chunk(i / CHUNKS, i % CHUNKS * E);
        }
        if constexpr (S::EXPAND == STEM) {  // two pixels are 6 inputs: three times two of them
            constexpr int ACROSS = PATCH_W / 2, ITEMS = PATCH_H * ACROSS, STEPS = ceil_div(ITEMS, S::THREADS), AT_ONCE = smaller(STEPS, 6);
#pragma unroll 1
            for (int k = 0; k < STEPS; k += AT_ONCE) {  // so many loads on their way
                Two two[AT_ONCE][3];
#pragma unroll
                for (int j = 0; j < AT_ONCE; ++j) {
                    const unsigned i = thread + (k + j) * S::THREADS, y = 2 * y_first - 1 + i / ACROSS, column = 2 * x_first - 2 + i % ACROSS * 2;
                    const bool inside = i < ITEMS && y < S::INPUT_H && column < S::INPUT_W;  // a negative one is large, too
                    const Two* const from = (const Two*)(x + (inside ? ((n0 * S::INPUT_H + y) * S::INPUT_W + column) * 3 : 0));
#pragma unroll
                    for (int e = 0; e < 3; ++e) two[j][e] = inside ? __ldg(from + e) : Two();
                }
#pragma unroll
                for (int j = 0; j < AT_ONCE; ++j)
                    if (thread + (k + j) * S::THREADS < ITEMS) put_pixels(x_tile, thread + (k + j) * S::THREADS, two[j]);
            }
        }
        cp_async_commit();
#pragma unroll 1
        for (unsigned pixel = thread; pixel < PIXELS_IN; pixel += S::THREADS) {
            unsigned image, row, column;
            place(pixel, image, row, column);
            const bool inside = is_inside(image, row, column, N, n0, y_first, x_first);
            const int there = ((image * IN_H + row + WHOLE_H) * IN_W + in_row(column + WHOLE_W)) * 8;
            rows[pixel] = there | (inside ? 0 : OUTSIDE) | (S::EXPAND == STEM ? (2 * row * PATCH_W + column * (HALVES ? 2 : 1)) << PATCH_SHIFT : 0);
        }
    }
    __device__ __forceinline__ static void put_pixels(__half* patch, unsigned pair, const unsigned (&v)[3]) {
        store_16(patch + pair * 8, make_uint4(v[0], v[1] & 0xffff, v[1] >> 16 | v[2] << 16, v[2] >> 16));
    }
    __device__ __forceinline__ static void put_pixels(float* patch, unsigned pair, const float2 (&v)[3]) {
        float* const to = patch + (pair + pair / (PATCH_W / 2) * (PATCH_W / 2)) * 4;
        *(float4*)to = make_float4(v[0].x, v[0].y, v[1].x, 0);
        *(float4*)(to + PATCH_ODD) = make_float4(v[1].y, v[2].x, v[2].y, 0);
    }

    __device__ __forceinline__ void fetch_hidden(const T* x, int N, int n0, int y0, int x0, int slice) {  // of a block without expand
        constexpr int CHUNKS = 16 * PLANES / E;
#pragma unroll 1
        for (int i = warp_p * 32 + lane; i < S::IMAGES * IN_H * IN_W * CHUNKS; i += S::WARPS_P * 32) {
            const int pixel = i / CHUNKS, column = pixel % IN_W, row = pixel / IN_W % IN_H, n = n0 + pixel / (IN_W * IN_H), chunk = i % CHUNKS * E;
            const int c = (rank * SLICES + slice) * S::SLICE + warp_c * PLANES * 16 + chunk;
            const bool inside = n < N && (unsigned)(y0 + row) < S::H && (unsigned)(x0 + column) < S::W && c < S::C;
            cp_async_16(hidden + (warp_c * PLANES * 2 + chunk / 8) * HALF_PLANE + (pixel - column + in_row(column)) * 8 + chunk % 8, x + (inside ? ((n * S::H + y0 + row) * S::W + x0 + column) * S::C + c : 0), inside);
        }
        cp_async_commit();
    }

    // a lane's row of the two tiles of 8 columns, as the weights lie: of_tiles has made four neighbours a thread's sums d[0][0],
    // d[0][1], d[1][0], d[1][1]
    __device__ __forceinline__ int column_of_lane() const { return lane % 8 + lane / 16 * 8; }

    // ---- expand: hidden = clamp(x · weight + bias), zero outside of the image, which is what the depthwise pads with
    __device__ __forceinline__ void expand(const T* w, float low, float high) {
        // floats are stored by the thread that has summed them, 4 neighbours at a time; of halves a warp stores its tile as a whole
        const T* const b_row = w + W1 + (warp_c * PLANES * 16 + column_of_lane()) * X_ROW + lane / 8 % 2 * E;
        Columns<HALVES> held[HELD ? K_STEPS : 1][PLANES];
        float bias[PLANES][2][4];
#pragma unroll
        for (int j = 0; j < PLANES; ++j) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float two[2];
                get(two, w + B1 + (warp_c * PLANES + j) * 16 + (HALVES ? half * 8 + 2 * t : 4 * t + half * 2));
                bias[j][half][0] = bias[j][half][2] = two[0], bias[j][half][1] = bias[j][half][3] = two[1];
            }
#pragma unroll
            for (int k = 0; HELD && k < K_STEPS; ++k) held[k][j].load(b_row + j * 16 * X_ROW + k * K_STEP);
        }
        T* const to = hidden + warp_c * PLANES * PLANE + (HALVES ? lane / 16 * HALF_PLANE : t / 2 * HALF_PLANE + t % 2 * 4);
#pragma unroll 1
        for (int m0 = warp_p * S::MT1; m0 < M_IN; m0 += S::WARPS_P * S::MT1) {
            const T* a_row[S::MT1];
            int entry[S::MT1], first[S::MT1];  // of the pixel whose row this lane fetches; the first pixel of a tile of mma
#pragma unroll
            for (int i = 0; i < S::MT1; ++i) {
                first[i] = 16 * (M_IN % S::MT1 ? smaller(m0 + i, M_IN - 1) : m0 + i);  // the last one again, and not a branch
                entry[i] = rows[first[i] + lane % 16];
                a_row[i] = x_tile + (S::EXPAND == STEM ? (entry[i] >> PATCH_SHIFT & PATCH) * 4 : (first[i] + lane % 16) * X_ROW) + lane / 16 * (S::EXPAND == STEM && !HALVES ? PATCH_ODD : E);
            }
            float acc[S::MT1][PLANES][2][4];
            constexpr int CHUNK = HALVES ? K_STEPS : 4;  // tensor cores cut sums off: of floats no more than 32 products at a time
#pragma unroll
            for (int k0 = 0; k0 < K_STEPS; k0 += CHUNK) {
                float part[HALVES ? 1 : S::MT1][HALVES ? 1 : PLANES][2][4] = {};
#pragma unroll
                for (int k = k0; k < smaller(k0 + CHUNK, K_STEPS); ++k) {
                    const int at = S::EXPAND == STEM ? k * K_STEP / 16 * PATCH_ROW + k * K_STEP % 16 / 2 : k * K_STEP;
                    Columns<HALVES> b[PLANES];
                    Rows<HALVES> a[S::MT1];
#pragma unroll
                    for (int i = 0; i < S::MT1; ++i) ldmatrix_x4(a[i].high, a_row[i] + at);
#pragma unroll
                    for (int j = 0; j < PLANES; ++j)
                        if constexpr (HELD) b[j] = held[k][j];
                        else b[j].load(b_row + j * 16 * X_ROW + k * K_STEP);
#pragma unroll
                    for (int i = 0; i < S::MT1; ++i) {
                        a[i].split();
#pragma unroll
                        for (int j = 0; j < PLANES; ++j)
                            if constexpr (HALVES) b[j].multiply(acc[i][j], a[i], k == 0 ? bias[j] : 0);
                            else b[j].multiply(part[i][j], a[i]);
                    }
                }
                if constexpr (!HALVES)
#pragma unroll
                    for (int i = 0; i < S::MT1 * PLANES * 8; ++i) {
                        float* const sum = &acc[i / 8 / PLANES][i / 8 % PLANES][i / 4 % 2][i % 4];
                        *sum = (k0 == 0 ? bias[i / 8 % PLANES][i / 4 % 2][i % 4] : *sum) + part[i / 8 / PLANES][i / 8 % PLANES][i / 4 % 2][i % 4];
                    }
            }
            if constexpr (HALVES) {
#pragma unroll
                for (int i = 0; i < S::MT1 * PLANES; ++i) {
                    const float(&d)[2][4] = acc[i / PLANES][i % PLANES];
                    stmatrix_x4(to + i % PLANES * PLANE + (entry[i / PLANES] & PLACE),
                                {bounded_halves(d[0][0], d[0][1], low, high), bounded_halves(d[0][2], d[0][3], low, high), bounded_halves(d[1][0], d[1][1], low, high), bounded_halves(d[1][2], d[1][3], low, high)});
                }
                __syncwarp();
#pragma unroll
                for (int i = 0; i < S::MT1 * PLANES; ++i)
                    if (entry[i / PLANES] < 0) store_16(to + i % PLANES * PLANE + (entry[i / PLANES] & PLACE), make_uint4(0, 0, 0, 0));
            } else
#pragma unroll
                for (int i = 0; i < S::MT1 * 2; ++i) {
                    const int mine = rows[first[i / 2] + i % 2 * 8 + g];
#pragma unroll
                    for (int j = 0; j < PLANES; ++j) {
                        const float(&d)[2][4] = acc[i / 2][j];
                        T* const at = to + j * PLANE + (mine & PLACE);
                        const auto bits = [&](float v) { return __float_as_uint(bounded(v, low, high)); };
                        store_16(at, make_uint4(bits(d[0][i % 2 * 2]), bits(d[0][i % 2 * 2 + 1]), bits(d[1][i % 2 * 2]), bits(d[1][i % 2 * 2 + 1])));
                        if (mine < 0) store_16(at, make_uint4(0, 0, 0, 0));
                    }
                }
        }
        __syncwarp();
    }
    template <int M, int N> __device__ __forceinline__ static void add(float (&sum)[M][N][2][4], const float (&part)[M][N][2][4]) {
#pragma unroll
        for (int i = 0; i < M * N * 8; ++i) sum[i / 8 / N][i / 8 % N][i / 4 % 2][i % 4] += part[i / 8 / N][i / 8 % N][i / 4 % 2][i % 4];
    }
    template <int N> __device__ __forceinline__ static void get(float (&v)[N], const T* from) {
#pragma unroll
        for (int e = 0; e < N; e += 4) {
            if constexpr (HALVES && N == 2) unpack(v[0], v[1], *(const unsigned*)from);
            else if constexpr (HALVES) {
                const uint2 four = *(const uint2*)(from + e);
                unpack(v[e], v[e + 1], four.x), unpack(v[e + 2], v[e + 3], four.y);
            } else if constexpr (N == 2) {
                const float2 two = *(const float2*)from;
                v[0] = two.x, v[1] = two.y;
            } else {
                const float4 four = *(const float4*)(from + e);
                v[e] = four.x, v[e + 1] = four.y, v[e + 2] = four.z, v[e + 3] = four.w;
            }
        }
    }

    // ---- depthwise: dw = clamp(3×3 of hidden + bias). What walks down STRIP outputs of a column is a lane, of V channels …
    __device__ __forceinline__ static void column(unsigned i, unsigned& from, unsigned& to) {  // place of the first hidden pixel, first pixel of dw
        const unsigned x = i % S::TILE_W, strip = i / S::TILE_W % STRIPS, image = i / (S::TILE_W * STRIPS);
        from = (image * IN_H + strip * S::STRIP * S::STRIDE) * IN_W + x;
        to = (image * S::TILE_H + strip * S::STRIP) * S::TILE_W + x;
    }
    __device__ __forceinline__ void depthwise_lanes(const T* w, float low, float high) {
        constexpr int GROUPS = 16 / V, ROUNDS = ceil_div(COLUMNS, 32 / GROUPS);  // rounds of a plane: the warps of the same channels share all
#pragma unroll 1
        for (int item = warp_p; item < PLANES * ROUNDS; item += S::WARPS_P) {
            const int j = item / ROUNDS, i = item % ROUNDS * (32 / GROUPS) + lane / GROUPS;
            const int c = lane % GROUPS * V, channel = (warp_c * PLANES + j) * 16 + c;
            float taps[9][V], bias[V];
#pragma unroll
            for (int e = 0; e < V; ++e)
#pragma unroll
                for (int tap = 0; tap < 9; ++tap) taps[tap][e] = (float)w[W2 + (channel + e) * 9 + tap];
            get(bias, w + B2 + channel);
            const T* const plane = hidden + (warp_c * PLANES + j) * PLANE + c / 8 * HALF_PLANE + c % 8;
            if (i < COLUMNS) {
                unsigned first, to;
                column(i, first, to);
                const T* const from = plane + first * 8;
                float acc[S::STRIP][V];
#pragma unroll
                for (int y = 0; y < (S::STRIP - 1) * S::STRIDE + 3; ++y) {
#pragma unroll
                    for (int kx = 0; kx < 3; ++kx) {
                        float v[V];
                        get(v, from + (y * IN_W + in_row(kx)) * 8);
#pragma unroll
                        for (int ky = 0; ky < 3; ++ky) {
                            const int r = (y - ky) / S::STRIDE;  // the output that needs this row under its row ky of taps
                            if (y >= ky && r * S::STRIDE == y - ky && r < S::STRIP)
#pragma unroll
                                for (int e = 0; e < V; ++e) acc[r][e] = fmaf(v[e], taps[ky * 3 + kx][e], ky + kx == 0 ? bias[e] : acc[r][e]);
                        }
                    }
                    const int r = (y - 2) / S::STRIDE;
                    if (y >= 2 && r * S::STRIDE == y - 2) {
#pragma unroll
                        for (int e = 0; e < V; ++e) acc[r][e] = bounded(acc[r][e], low, high);
                        store(dw + (to + r * S::TILE_W) * D_ROW + channel, acc[r]);
                    }
                }
            }
        }
    }
    // … or, of halves (V = 0), a warp, of 16 columns and channels: a tap is a product with a diagonal matrix, of which tensor cores
    // do 8 times too much and yet all at once, without turning halves into floats: a third of the instructions.
    __device__ __forceinline__ void depthwise_mma(const T* w, float low, float high) {
        constexpr int ROUNDS = ceil_div(COLUMNS, 16);
        const unsigned here = g / 2 == t ? g % 2 ? 1u << 16 : 1u : 0u;  // where a lane's tap stands among its two elements of b
#pragma unroll 1
        for (int item = warp_p; item < PLANES * ROUNDS; item += S::WARPS_P) {
            const int j = item / ROUNDS, i = item % ROUNDS * 16 + lane % 16, channel = (warp_c * PLANES + j) * 16;
            unsigned diagonal[2][9];
            float bias[2][4];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
#pragma unroll
                for (int tap = 0; tap < 9; ++tap) diagonal[half][tap] = here * *(const unsigned short*)(w + W2 + (channel + half * 8 + g) * 9 + tap);
                unpack(bias[half][0], bias[half][1], *(const unsigned*)(w + B2 + channel + half * 8 + 2 * t));
                bias[half][2] = bias[half][0], bias[half][3] = bias[half][1];
            }
            unsigned first, to;
            column(smaller(i, COLUMNS - 1), first, to);
            const bool mine = COLUMNS % 16 == 0 || i < COLUMNS;
            T* const at = mine ? dw + to * D_ROW + channel + lane / 16 * 8 : spare;
            const int down = mine ? S::TILE_W * D_ROW : 0;
            // a product takes 8 channels under two taps side by side; under the third, 8 channels at a time
            const T* const from = hidden + (warp_c * PLANES + j) * PLANE + first * 8;
            const T *const of_two = from + lane / 16 * ODD * 8, *const of_third = from + in_row(2) * 8 + lane / 16 * HALF_PLANE;
            float acc[S::STRIP][2][4];
#pragma unroll
            for (int y = 0; y < (S::STRIP - 1) * S::STRIDE + 3; ++y) {
                unsigned two[2][4], third[4];
                ldmatrix_x4(two[0], of_two + y * IN_W * 8);
                ldmatrix_x4(two[1], of_two + y * IN_W * 8 + HALF_PLANE);
                ldmatrix_x4(third, of_third + y * IN_W * 8);
#pragma unroll
                for (int part = 0; part < 2; ++part)  // first those under two taps, so that no product waits for the one before it
#pragma unroll
                    for (int ky = 0; ky < 3; ++ky) {
                        const int r = (y - ky) / S::STRIDE;
                        if (y >= ky && r * S::STRIDE == y - ky && r < S::STRIP)
#pragma unroll
                            for (int half = 0; half < 2; ++half)
                                if (part == 1) mma_f16_k8(acc[r][half], {third[2 * half], third[2 * half + 1]}, diagonal[half][ky * 3 + 2]);
                                else if (ky == 0) mma_f16(acc[r][half], two[half], {diagonal[half][0], diagonal[half][1]}, bias[half]);
                                else mma_f16(acc[r][half], two[half], {diagonal[half][ky * 3], diagonal[half][ky * 3 + 1]});
                    }
                const int r = (y - 2) / S::STRIDE;
                if (y >= 2 && r * S::STRIDE == y - 2) {
                    const float(&d)[2][4] = acc[r];
                    stmatrix_x4(at + r * down, {bounded_halves(d[0][0], d[0][1], low, high), bounded_halves(d[0][2], d[0][3], low, high), bounded_halves(d[1][0], d[1][1], low, high), bounded_halves(d[1][2], d[1][3], low, high)});
                }
            }
        }
    }

    // ---- project: sums += dw · weight, over the slice
    __device__ __forceinline__ void project(const T* w, float (&acc)[MT3][PAIRS3][2][4]) {
        // where a warp has one tile less than others it takes the last one again, whose sums nobody reads, and not a branch
        const int warp_m = warp / S::WARPS_N3, warp_n = warp % S::WARPS_N3;
        const T *a_row[MT3], *b_row[PAIRS3];
#pragma unroll
        for (int i = 0; i < MT3; ++i) a_row[i] = dw + ((M_OUT % M3 && i == MT3 - 1 ? smaller(warp_m + i * M3, M_OUT - 1) : warp_m + i * M3) * 16 + lane % 16) * D_ROW + lane / 16 * E;
#pragma unroll
        for (int j = 0; j < PAIRS3; ++j)
            b_row[j] = w + W3 + ((PAIRS % S::WARPS_N3 && j == PAIRS3 - 1 ? smaller(warp_n + j * S::WARPS_N3, PAIRS - 1) : warp_n + j * S::WARPS_N3) * 16 + column_of_lane()) * D_ROW + lane / 8 % 2 * E;
        float part[HALVES ? 1 : MT3][HALVES ? 1 : PAIRS3][2][4] = {};
#pragma unroll
        for (int k = 0; k < S::SLICE; k += K_STEP) {
            Columns<HALVES> b[PAIRS3];
#pragma unroll
            for (int j = 0; j < PAIRS3; ++j) b[j].load(b_row[j] + k);
#pragma unroll
            for (int i = 0; i < MT3; ++i) {
                Rows<HALVES> a;
                ldmatrix_x4(a.high, a_row[i] + k);
                a.split();
#pragma unroll
                for (int j = 0; j < PAIRS3; ++j) {
                    if constexpr (HALVES) b[j].multiply(acc[i][j], a);
                    else b[j].multiply(part[i][j], a);
                }
            }
        }
        if constexpr (!HALVES) add(acc, part);
    }

    // ---- y = clamp(sums), 4 neighbouring channels of a pixel at a time; the sums begin with bias and residual
    static constexpr int ROWS3 = 2 * MT3;  // pixels whose sums a thread has, PAIRS3 times 4 channels of each
    __device__ __forceinline__ unsigned pixel_of(int i) const { return (warp / S::WARPS_N3 + i / 2 * M3) * 16 + i % 2 * 8 + g; }
    __device__ __forceinline__ unsigned channel_of(int j) const { return (warp % S::WARPS_N3 + j * S::WARPS_N3) * 16 + 4 * t; }
    // Of a pixel of a tile: whether there is one; where its channels begin in y, counted from the tile's first pixel.
    __device__ __forceinline__ static bool is_out(unsigned pixel, int N, int n0, int oy0, int ox0) {
        return (MT3 * M3 * 16 == PIXELS_OUT || pixel < PIXELS_OUT) && (S::IMAGES == 1 || n0 + pixel / (S::TILE_W * S::TILE_H) < N) &&
               (OUT_H % S::TILE_H == 0 || oy0 + pixel / S::TILE_W % S::TILE_H < OUT_H) && (OUT_W % S::TILE_W == 0 || ox0 + pixel % S::TILE_W < OUT_W);
    }
    __device__ __forceinline__ static unsigned place_out(unsigned pixel) {
        if (S::TILE_W == OUT_W && (S::IMAGES == 1 || S::TILE_H == OUT_H)) return pixel * S::O;
        unsigned row = pixel / S::TILE_W;
        if (S::IMAGES > 1) row = row / S::TILE_H * OUT_H + row % S::TILE_H;
        return (row * OUT_W + pixel % S::TILE_W) * S::O;
    }
    // A residual that is x itself lies in shared memory. Of halves it is one more product, with ones on the diagonal.
    __device__ __forceinline__ static unsigned pixel_in(unsigned pixel) {  // of x's tile, under an output pixel
        if (WHOLE_H && WHOLE_W) return pixel;
        const unsigned row = pixel / S::TILE_W, image = S::IMAGES == 1 ? 0 : row / S::TILE_H;
        return (image * REAL_H + row - image * S::TILE_H + !WHOLE_H) * REAL_W + pixel % S::TILE_W + !WHOLE_W;
    }
    __device__ __forceinline__ void add_x(float (&acc)[MT3][PAIRS3][2][4]) const {
        if constexpr (HALVES) {
            Columns<true> ones;  // its column g of tile i is channel 4·(g / 2) + 2·i + g % 2, see of_tiles; rows 2t, 2t + 1, then 8 on
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int channel = g / 2 * 4 + i / 2 * 2 + g % 2 - i % 2 * 8;
                ones.high[i] = channel == 2 * t ? 0x3c00u : channel == 2 * t + 1 ? 0x3c000000u : 0u;
            }
#pragma unroll
            for (int i = 0; i < MT3; ++i) {
                const T* const from = x_tile + pixel_in(smaller((warp / S::WARPS_N3 + i * M3) * 16 + lane % 16, PIXELS_OUT - 1)) * X_ROW + lane / 16 * E;
#pragma unroll
                for (int j = 0; j < PAIRS3; ++j) {
                    Rows<true> a;
                    ldmatrix_x4(a.high, from + smaller(warp % S::WARPS_N3 + j * S::WARPS_N3, PAIRS - 1) * 16);
                    ones.multiply(acc[i][j], a);
                }
            }
        } else
#pragma unroll
            for (int i = 0; i < ROWS3 * PAIRS3; ++i) {
                const int row = i / PAIRS3, j = i % PAIRS3;
                float more[4] = {};
                if (channel_of(j) < S::O) get(more, x_tile + pixel_in(smaller(pixel_of(row), PIXELS_OUT - 1)) * X_ROW + channel_of(j));
#pragma unroll
                for (int e = 0; e < 4; ++e) acc[row / 2][j][e / 2][row % 2 * 2 + e % 2] += more[e];
            }
    }
    // Read before anything else is waited for: at the end nobody waits for them.
    __device__ __forceinline__ void begin(float (&acc)[MT3][PAIRS3][2][4], const Weights<T>& w, const T* residual, int N, int n0, int oy0, int ox0) const {
        const T* const residual_tile = residual + ((n0 * OUT_H + oy0) * OUT_W + ox0) * S::O;
        float bias[PAIRS3][4] = {};
#pragma unroll
        for (int j = 0; j < PAIRS3; ++j)
            if (rank == 0 && w.project_bias && channel_of(j) < S::O) load(bias[j], w.project_bias + channel_of(j));
#pragma unroll
        for (int i = 0; i < ROWS3; ++i) {
            const bool added = !S::ADDS_X && rank == 0 && residual && is_out(pixel_of(i), N, n0, oy0, ox0);
            const unsigned at = place_out(pixel_of(i));
#pragma unroll
            for (int j = 0; j < PAIRS3; ++j) {
                float more[4] = {};
                if (added && (S::O % 16 == 0 || channel_of(j) < S::O)) get(more, residual_tile + (at + channel_of(j)));
#pragma unroll
                for (int e = 0; e < 4; ++e) acc[i / 2][j][e / 2][i % 2 * 2 + e % 2] = bias[j][e] + more[e];
            }
        }
    }
    __device__ __forceinline__ static void write(float (&v)[4], T* to, const Weights<T>& w) {
#pragma unroll
        for (int e = 0; e < 4; ++e) v[e] = bounded(v[e], w.low[2], w.high[2]);
        store(to, v);
    }

    // what nobody writes later: the border of a whole image, what fills up tiles of mma
    __device__ __forceinline__ void clear() {
        if (BLOCK != S::THREADS && team >= TEAMS) return;
        const uint4 zero = make_uint4(0, 0, 0, 0);
        constexpr int FROM = S::EXPAND == NONE ? H_SIZE : 0;
        for (int i = FROM / E + thread; i < (H_SIZE + D_SIZE) / E; i += S::THREADS) ((uint4*)hidden)[i] = zero;
        if constexpr (S::EXPAND != NONE)
            for (int i = PIXELS_IN + thread; i < M_IN * 16; i += S::THREADS) rows[i] = (PIXELS_HIDDEN + i - PIXELS_IN) * 8;
        if constexpr (S::EXPAND == POINTWISE) {
            for (int i = PIXELS_IN * X_ROW / E + thread; i < X_SIZE / E; i += S::THREADS) ((uint4*)x_tile)[i] = zero;
            constexpr int EXTRA = (K_PADDED - S::C) / E;
            for (int i = thread; i < PIXELS_IN * EXTRA; i += S::THREADS) *(uint4*)(x_tile + i / larger(EXTRA, 1) * X_ROW + S::C + i % larger(EXTRA, 1) * E) = zero;
        }
    }
    __device__ __forceinline__ void run(const T* x, const Weights<T>& w, const T* residual, T* y, int N, int first, int step) {
        walk(x, w, residual, y, N, first, step, 0, Nothing(), false);
    }
    // After clear(), which needs nothing of the kernel before. Threads that wait for each other, those of a block or of a cluster,
    // give the same first and step, and take tile first + own, if there is one, own a number of their team's. after() is called
    // once, when nothing is waited for any more that cp.async brings for the first slice.
    template <class After> __device__ __forceinline__ void walk(const T* x, const Weights<T>& w, const T* residual, T* y, int N, int first, int step, int own, const After& after, bool cleared = true) {
        const int tiles = ceil_div(N, S::IMAGES) * TILES_H * TILES_W;
        bool fetched = true;  // the first slices of the weights
#pragma unroll 1
        for (int start = first; start < tiles; start += step) {
            const int tile = start + own;
            const bool busy = (BLOCK == S::THREADS || team < TEAMS) && tile < tiles;
            const int ox0 = tile % TILES_W * S::TILE_W, oy0 = tile / TILES_W % TILES_H * S::TILE_H, n0 = tile / (TILES_W * TILES_H) * S::IMAGES;
            const int y0 = oy0 * S::STRIDE - 1, x0 = ox0 * S::STRIDE - 1;
            if (!fetched && !RESIDENT) prefetch(w);
            fetched = false;
            if constexpr (S::EXPAND != NONE)
                if (busy) fetch_x(x, N, n0, y0, x0);
            if (!cleared) clear();  // while x is on its way
            cleared = true;
            float acc[MT3][PAIRS3][2][4] = {};
            if (busy) begin(acc, w, residual, N, n0, oy0, ox0);
#pragma unroll 1
            for (int slice = 0; slice < SLICES; ++slice) {
                const T* const now = stages + slice % STAGES * STAGE;
                if constexpr (S::EXPAND == NONE) {
                    if (busy) fetch_hidden(x, N, n0, y0, x0, slice);
                    cp_async_wait<0>();
                    __syncwarp();
                }
                if (slice == 0) {
                    cp_async_wait<0>();
                    __syncthreads();
                    if (start == first) after();
                    if (start + step >= tiles) launch_dependents();  // what follows may come and fetch its weights
                }
                if constexpr (S::EXPAND != NONE)
                    if (busy) expand(now, w.low[0], w.high[0]);
                if (slice > 0 || S::WARPS_P > 1) __syncthreads();  // all have read dw, and the weights of the slice before
                if (!RESIDENT) {
                    if (slice + STAGES - 1 < SLICES) fetch_slice(w, slice + STAGES - 1);
                    cp_async_commit();
                }
                if (busy) {
                    if constexpr (V == 0) depthwise_mma(now, w.low[1], w.high[1]);
                    else depthwise_lanes(now, w.low[1], w.high[1]);
                }
                if (!RESIDENT) cp_async_wait<STAGES - 2>();
                __syncthreads();
                if (busy) project(now, acc);
            }
            if constexpr (S::ADDS_X)
                if (busy && rank == 0) add_x(acc);
            T* const y_tile = y + ((n0 * OUT_H + oy0) * OUT_W + ox0) * S::O;
            if constexpr (S::SPLIT == 1) {
#pragma unroll
                for (int i = 0; busy && i < ROWS3; ++i) {
                    const bool there = is_out(pixel_of(i), N, n0, oy0, ox0);
                    const unsigned at = place_out(pixel_of(i));
#pragma unroll
                    for (int j = 0; j < PAIRS3; ++j) {
                        const float(&d)[2][4] = acc[i / 2][j];
                        float v[4] = {d[0][i % 2 * 2], d[0][i % 2 * 2 + 1], d[1][i % 2 * 2], d[1][i % 2 * 2 + 1]};
                        if (there && channel_of(j) < S::O) write(v, y_tile + (at + channel_of(j)), w);
                    }
                }
                __syncthreads();  // the next tile's x comes where slow warps may still read
            } else {
#pragma unroll
                for (int i = 0; busy && i < ROWS3 * PAIRS3; ++i) {
                    const unsigned row = i / PAIRS3, j = i % PAIRS3, quarter = (pixel_of(row) * O_PADDED + channel_of(j)) / 4, owner = quarter / PART;
                    const float(&d)[2][4] = acc[row / 2][j];
                    const float4 sum = make_float4(d[0][row % 2 * 2], d[0][row % 2 * 2 + 1], d[1][row % 2 * 2], d[1][row % 2 * 2 + 1]);
                    float4* const to = sums + (rank * PART + quarter - owner * PART);
                    if (pixel_of(row) < PIXELS_OUT && channel_of(j) < O_PADDED) {
                        if constexpr (MAIL) box->send(to, rank_of_first + owner, sum);
                        else *cluster_map(to, rank_of_first + owner) = sum;
                    }
                }
                const int mine = busy ? larger(0, smaller(PART, QUARTERS - rank * PART)) : 0;
                if constexpr (MAIL) {
                    if (busy && thread == 0) box->expect(S::SPLIT * mine * 16);
                    box->wait(turn, busy);
                    turn ^= busy;
                } else cluster_sync();
                for (int i = thread; i < mine; i += S::THREADS) {
                    float v[4] = {};
#pragma unroll
                    for (int r = 0; r < S::SPLIT; ++r) {
                        const float4 part = sums[r * PART + i];
                        v[0] += part.x, v[1] += part.y, v[2] += part.z, v[3] += part.w;
                    }
                    const unsigned quarter = rank * PART + i, o = quarter % (O_PADDED / 4) * 4, pixel = quarter / (O_PADDED / 4);
                    if (is_out(pixel, N, n0, oy0, ox0) && o < S::O) write(v, y_tile + (place_out(pixel) + o), w);
                }
                if (start + step < tiles) cluster_sync();  // nobody puts the next tile's sums where another one still reads
                else __syncthreads();                      // nor clears what slow warps still read
            }
        }
        if (first >= tiles) after();
    }
};
