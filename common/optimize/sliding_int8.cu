// sliding_int8 - MobileNetV2's block in int8 as one kernel, whose hidden channels slide through registers.
// requires: sm_80
//
//   x (N, H, W, C), residual and y (N, OUT_H, OUT_W, O): NHWC. weights: of each slice of hidden channels what a stage
//   in shared memory holds, byte by byte (blocks_int8.py, Slid): of expand, of depthwise, of project, and how sums are
//   requantized (kernels/one_step.py). project's bias int32, of inputs that are codes + 128, and multiplier float32.
//   The bits are those of inverted_residual_int8.
//
// A warp takes 16 hidden channels and walks down STRIP rows of outputs, as in fused/sliding.h. Hidden pixels 2g and
// 2g + 1 of a row are in lanes 4g … 4g + 3: a product's rows are the even pixels, then the odd ones.
//
//     hidden pixels    0 1 │ 2 3 │ 4 5 │ …      a register: two channels of both pixels of a lane, codes + 128
//     outputs          1 2 │ 3 4 │ 5 6 │ …      under taps 0 and 1 lies a register, under tap 2 that of the next lane
//
//   depthwise is a product with 32 columns: k = 4t … 4t + 3 are two channels under two taps, 16 + k those under the
//   third. So one register comes from the neighbour (a shuffle), and one is put together (a permutation):
//
//     output 2g + 1    (2g, 2g + 1)        (2g + 1, 2g + 2)       · taps (0, 1) and (none, 2)
//     output 2g + 2    (2g + 1, 2g + 2)    (2g + 2, 2g + 3)
//
//   At stride 2 it is (2g, 2g + 1) · (0, 1) and (2g + 2, 2g + 3) · (2, none), of two segments of 7 outputs each.
//   Images of 7 columns lie side by side, two in a row of 16: the column of zeros between them serves both.
//
//   Of a stem (STEM_H > 0) x is the image (N, STEM_H, STEM_W, 3), and expand its 3×3 convolution of stride 2, whose
//   weights are (3, 4, 4): rows, columns of which the last one is 0, channels of which the last one is 0. In shared
//   memory a pixel is a word. Lane 4g + t has column t of the taps: a product's first factor is words side by side.
//   If image_t is float or __half, the image has real numbers, which become codes on their way, as kernel quantize
//   makes them: see code_of_real.
//
//   A requantization is one fma, and half an instruction that packs and clamps. Where it would give another code than
//   int8.requantize for some sum, a channel takes three, or four if a hidden zero point is odd (ODD): such channels lie
//   together (blocks_int8.py).
//
//   SPLIT blocks, a cluster, share a tile: each takes every SPLIT-th slice, and its sums of outputs, integers, go to
//   the blocks that finish them (cluster.h, Mailbox), each of which has as many of the tile's outputs:
//
//     block 0's registers ──┬──► sums[0][PART] ─┐
//     block 1's registers ──┼──► sums[1][PART] ─┼─► + ──► y, of this block's quarters
//     …                     └──► …             ─┘      in the shared memory of the block that finishes them
//
// One barrier a slice: dw has two buffers, project works a slice behind. Of few images a block has one slice, and a
// warp one item: then all that needs no x is done while the kernel in front of this one still runs (PREPARES).
#include "block_int8.h"
#include "unit.h"

#ifndef ADDS_X
#define ADDS_X 0
#endif

constexpr int C = CHANNELS, O = OUTPUTS, H = HEIGHT, W = WIDTH;  // of the block's input, and its output channels
// bytes of a row in shared memory, of so many channels: an odd number of 16, so that 8 rows lie in 8 groups of banks
__host__ __device__ constexpr int row_of(int channels) { return ceil_to(channels, 16) | 16; }
constexpr int THREADS = 32 * WARPS, WARPS_M = WARPS / WARPS_N;
constexpr int WARPS_C = WARPS / PIXEL_WARPS, PLANES = SLICE / 16 / WARPS_C;  // of a warp, of 16 channels
constexpr int OUT_H = (H - 1) / STRIDE + 1, OUT_W = (W - 1) / STRIDE + 1;
constexpr int TILES_H = ceil_div(OUT_H, TILE_H), TILES_W = ceil_div(OUT_W, TILE_W);
constexpr int IN_H = (TILE_H - 1) * STRIDE + 3, IN_W = (TILE_W - 1) * STRIDE + 3;  // hidden pixels of an image's tile
constexpr bool STEM = STEM_H > 0;
constexpr int DEEP = STEM ? 48 : C;  // of expand's products
constexpr int EVENS = ceil_div(IN_W, 2), ROW1 = row_of(DEEP);
constexpr int ROW = row_of(SLICE), SLICES = ceil_div(HIDDEN, SLICE), OWN = ceil_div(SLICES, SPLIT);  // of a block
constexpr int GROUP = O <= 16 ? 16 : 32, NEAR = GROUP / 4, O_PADDED = ceil_to(O, GROUP);  // outputs; of a thread
constexpr int PIXELS_OUT = IMAGES * TILE_H * TILE_W, M_OUT = ceil_to(PIXELS_OUT, 16);
constexpr bool SIDE_BY_SIDE = STRIDE == 1 && W == 7 && TILE_W == 7, PAIRS = STRIDE == 2 || SIDE_BY_SIDE;
// segments of a row; units: those of all strips; a warp takes one, or a pair
constexpr int SEGMENT = PAIRS ? 7 : 14, SEGMENTS = ceil_div(TILE_W, SEGMENT), STRIPS = TILE_H / STRIP;
constexpr int UNITS = IMAGES * STRIPS * SEGMENTS, ITEMS = PAIRS ? ceil_div(UNITS, 2) : UNITS;
constexpr int FRAGMENTS = STRIDE, ROWS = (STRIP - 1) * STRIDE + 3, K_STEPS = ceil_div(DEEP, 32);
constexpr bool HALF_STEP = DEEP % 32 > 0 && DEEP % 32 <= 16;  // the last 16 channels of x
// a stem's image, 4 bytes a pixel, from the column on that is 4 before that of the tile's first output
constexpr int PATCH = ceil_to(28 * SEGMENTS + 8, 4) * 4;
// bytes of shared memory; of x's rows even columns come first, then odd ones
constexpr int X_ROW = STEM ? 2 * PATCH : 2 * EVENS * ROW1;
constexpr int X_SIZE = STEM ? IMAGES * (2 * IN_H + 1) * PATCH : IMAGES * IN_H * X_ROW;
constexpr int DW_SIZE = M_OUT * ROW, SPARE = THREADS * 16;
// a stage: expand [SLICE][ROW1]; ENDS: of expand, then of depthwise, bias, multiplier, offset, int [6][SLICE]; W2:
// taps, unsigned [SLICE][3][2]; and in memory behind it, in shared memory elsewhere, project [O_PADDED][ROW]
constexpr int ENDS = EXPAND ? SLICE * ROW1 : 0, W2 = ENDS + 24 * SLICE, STAGE = W2 + 24 * SLICE;
constexpr int W3_SIZE = O_PADDED * ROW, DWS = OWN > 1 ? 2 : 1, STAGES = DWS, W3S = OWN < 3 ? OWN : 3;
// project: a warp's tiles of 16 pixels and its groups of outputs, of which a thread holds neighbours
constexpr int TILES_M = ceil_div(M_OUT / 16, WARPS_M), GROUPS = ceil_div(O_PADDED / GROUP, WARPS_N);
// of a cluster: a quarter is four neighbouring sums of a pixel, and each block finishes PART of them. BY_LANES: those
// that a warp sends at once, of 8 pixels, lie side by side; else those of a pixel
constexpr bool BY_LANES = O % 32 == 0;
constexpr int SENT = BY_LANES ? ceil_to(PIXELS_OUT, 8) : PIXELS_OUT;  // pixels
constexpr int QUARTERS = SENT * O / 4, PART = ceil_div(QUARTERS, SPLIT);
constexpr int SUMS_SIZE = SPLIT > 1 ? SPLIT * PART * 16 + 16 : 0;
constexpr int ENDS_OUT = 8 * O_PADDED;  // of outputs, bias and multiplier
constexpr int SHARED =
    X_SIZE + DWS * DW_SIZE + SPARE + STAGES * STAGE + W3S * W3_SIZE + 4 * M_OUT + ENDS_OUT + SUMS_SIZE;
// PREPARES: a warp has one item of 16 channels, so what it needs of the weights, and where its x lies, is in registers
// when the kernel before ends. W3_AHEAD: so are project's weights when dw is there
constexpr int TURNS_X = ceil_div(IMAGES * IN_H * IN_W * ceil_div(C, 16), THREADS);
constexpr bool PREPARES = OWN == 1 && PLANES == 1 && ITEMS <= PIXEL_WARPS && !STEM && TURNS_X <= 4;
constexpr int K3 = ceil_div(SLICE, 32);
constexpr bool W3_AHEAD = PREPARES && K3 * GROUPS <= 6;
static_assert(SLICE % (16 * WARPS_C) == 0 && TILE_H % STRIP == 0 && WARPS % WARPS_N == 0 && WARPS % PIXEL_WARPS == 0 &&
                  (TILE_W <= 14 || TILE_W % 14 == 0) && (STEM || C % 8 == 0) && O % 8 == 0 && HIDDEN % 8 == 0,
              "tile");
static_assert(sizeof(image_t) == 1 || STEM, "only a stem reads real numbers");
static_assert(SPLIT <= SLICES, "every block of a cluster has a slice");
static_assert(!STEM || (EXPAND && STRIDE == 1 && !SIDE_BY_SIDE && TILE_W % 2 == 0 && STEM_W % 4 == 0), "stem");
constexpr unsigned ALL = 0xffffffffu;

// Where output `o` of a tile's row lies in dw: of each segment, those first that one row of lanes' products holds.
constexpr int WIDE = TILE_W < SEGMENT ? TILE_W : SEGMENT, FIRST = (WIDE + 1) / 2;
__device__ __forceinline__ int place_of(int o) {
    return STRIDE == 2 ? o : o / SEGMENT * SEGMENT + o % SEGMENT % 2 * FIRST + o % SEGMENT / 2;
}
__device__ __forceinline__ int output_at(int place) {
    const int i = place % SEGMENT;
    return STRIDE == 2 ? place : place - i + i % FIRST * 2 + i / FIRST;
}

// A real number as a code: clamp(round(v / scale) + zero point), quantize's bits. The quotient is rounded once: v ·
// inverse, and then what that left out of v (blocks_int8.py, `divides`). NaN becomes the least code.
struct Real {
    float scale, inverse, most;  // most: beyond every code
    int zero;
};
__device__ __forceinline__ int code_of_real(float v, const Real& to) {
    v = fminf(fmaxf(v, -to.most), to.most);
    const float about = __fmul_rn(v, to.inverse), left = __fmaf_rn(-about, to.scale, v);
    return __float_as_int(__fadd_rn(__fmaf_rn(left, to.inverse, about), INTEGERS)) + (to.zero - SHIFTED);
}
// Four neighbouring numbers of an image, and their codes.
template <class T> struct Four;
template <> struct Four<signed char> { using type = unsigned; };
template <> struct Four<__half> { using type = uint2; };
template <> struct Four<float> { using type = float4; };
__device__ __forceinline__ unsigned codes_of(unsigned four, const Real&) { return four; }
__device__ __forceinline__ unsigned codes_of(float4 v, const Real& to) {
    return pack_saturated(code_of_real(v.x, to), code_of_real(v.y, to), code_of_real(v.z, to), code_of_real(v.w, to));
}
__device__ __forceinline__ unsigned codes_of(uint2 v, const Real& to) {
    const unsigned short a = v.x, b = v.x >> 16, c = v.y, d = v.y >> 16;
    return codes_of(make_float4(__half2float(__ushort_as_half(a)), __half2float(__ushort_as_half(b)),
                                __half2float(__ushort_as_half(c)), __half2float(__ushort_as_half(d))), to);
}

// Where four sums from output o on, of dw's row m, lie among the quarters; and what lies at a place.
__device__ __forceinline__ int quarter_of(int m, int o) {
    if (!BY_LANES) return (m * O + o) / 4;
    return ((m / 8 * (O / 32) + o / 32) * 2 + o / 4 % 2) * 32 + m % 8 * 4 + o / 8 % 4;
}
__device__ __forceinline__ int2 sums_at(int quarter) {  // (m, o)
    if (!BY_LANES) return make_int2(quarter * 4 / O, quarter * 4 % O);
    const int t = quarter % 4, row = quarter / 4 % 8, half = quarter / 32 % 2, group = quarter / 64;
    return make_int2(group / (O / 32) * 8 + row, group % (O / 32) * 32 + t * 8 + half * 4);
}

struct Spot {
    int n0, iy0, ix0;  // the first image; of the first hidden pixel
    unsigned zeros;    // four hidden zeros
    int none[2];       // 0
};

// Of a lane's two hidden pixels in a unit: which bytes lie in an image's columns; of its rows, the first.
struct Place {
    const signed char* from;
    unsigned columns;
    int row;
};

// Bias (0) or multiplier (1) of neighbouring outputs, from o on; zeros where there are none.
template <int N> __device__ __forceinline__ void get_end(int (&v)[N], const int4* ends, int which, int o) {
#pragma unroll
    for (int e = 0; e < N; e += 4) {
        const int4 four = o < O ? ends[(which * O_PADDED + o + e) / 4] : make_int4(0, 0, 0, 0);
        v[e] = four.x, v[e + 1] = four.y, v[e + 2] = four.z, v[e + 3] = four.w;
    }
}
struct Outputs {
    signed char* y;
    const signed char *residual, *x_tile;
    const int* places;
    const int4* ends;
    Output to;

    template <int N> __device__ __forceinline__ void finish(int m, int o, const int (&sum)[N]) const {  // of dw's row m
        const int place = places[m], column = output_at(m % TILE_W) + 1;
        int bits[N];
        float scale[N];
        get_end(bits, ends, 1, o);
#pragma unroll
        for (int e = 0; e < N; ++e) scale[e] = __int_as_float(bits[e]);
        const signed char* const in_x = x_tile + (m / (TILE_H * TILE_W) * IN_H + m / TILE_W % TILE_H + 1) * X_ROW +
                                        (column % 2 * EVENS + column / 2) * ROW1 + o;
        const signed char* const more = !RESIDUAL ? nullptr : ADDS_X ? in_x : residual + place + o;
        finish_whole<SMALL_PROJECT, ADDS_X>(y + place + o, sum, scale, more, place < 0 ? 0 : O - o, to);
    }
};

// Of 16 hidden channels what a lane needs of the weights.
struct Channels {
    unsigned w1[EXPAND ? K_STEPS : 1][4];
    End hidden[2], dw[2];  // of the two halves of 16 channels: 4t + 2·half and the next
    int hidden_begin[2][4], dw_begin[2][4];
    unsigned taps[3][2][2];  // by rows of taps, halves of channels, columns of taps

    __device__ __forceinline__ void load(const signed char* stage, int channel, const Spot& spot, int lane) {
        const int g = lane / 4, t = lane % 4;
        // the channel whose weights this lane's row are
        const int mine = 4 * (lane % 8 / 2) + 2 * (lane / 16) + lane % 2;
#pragma unroll
        for (int k = 0; EXPAND && k < K_STEPS; ++k)
            ldmatrix_x4(w1[k], stage + (channel + mine) * ROW1 + k * 32 +
                                   (HALF_STEP && k == K_STEPS - 1 ? 0 : lane / 8 % 2 * 16));
        const int* const ends = (const int*)(stage + ENDS) + channel + 4 * t;
#pragma unroll
        for (int i = 0; i < 6; ++i) {
            if (!EXPAND && i < 3) continue;
            const int4 four = *(const int4*)(ends + i * SLICE);
            const int v[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                End& end = i < 3 ? hidden[e / 2] : dw[e / 2];
                int(&begin)[4] = i < 3 ? hidden_begin[e / 2] : dw_begin[e / 2];
                // zeros that the compiler does not know: of one register it makes copies for every product
                if (i % 3 == 0) begin[e % 2] = v[e] + spot.none[0], begin[2 + e % 2] = v[e] + spot.none[1];
                if (i % 3 == 1) end.multiplier[e % 2] = __int_as_float(v[e]);
                // an fma of three even registers, or three odd ones, takes a cycle more
                if (i % 3 == 2) end.offset[1 - e % 2] = __int_as_float(v[e]);
            }
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint2* const w2 = (const uint2*)(stage + W2) + (channel + g / 2 * 4 + 2 * half + g % 2) * 3;
#pragma unroll
            for (int ky = 0; ky < 3; ++ky) {
                const uint2 two = w2[ky];
                taps[ky][half][0] = g / 2 == t ? two.x : 0, taps[ky][half][1] = g / 2 == t ? two.y : 0;
            }
        }
    }
};

// Of an item: where a lane finds its pixels, and where its outputs go.
struct Item {
    Place at[FRAGMENTS];
    signed char* to;
    int down;

    __device__ __forceinline__ Item(const signed char* x_tile, signed char* dw, signed char* spare, int item,
                                    int channel, const Spot& spot, int lane) {
        const int g = lane / 4;
#pragma unroll
        for (int f = 0; f < FRAGMENTS; ++f) {
            // this lane's row of x for ldmatrix, and its two pixels
            const auto place = [&](int pixel, int& row, int& column) {
                const int given = SIDE_BY_SIDE ? 2 * item + pixel / 8 : PAIRS ? 2 * item + f : item;
                const int unit = given < UNITS ? given : UNITS - 1;
                row = unit / (SEGMENTS * STRIPS) * IN_H + unit / SEGMENTS % STRIPS * STRIP * STRIDE;
                column = unit % SEGMENTS * SEGMENT * STRIDE + (SIDE_BY_SIDE ? pixel % 8 : pixel);
            };
            int row, column, unused;
            place(lane % 8 * 2 + lane / 8 % 2, row, column);
            column = column < IN_W ? column : IN_W - 1;
            if constexpr (STEM) {
                const int image = row / IN_H;  // whose rows are 2·IN_H + 1
                place(0, unused, column);
                at[f].from = x_tile + row * X_ROW + image * PATCH + (2 * column + lane + 1) * 4;
            } else at[f].from = x_tile + row * X_ROW + (column % 2 * EVENS + column / 2) * ROW1;
            place(2 * g, at[f].row, column);
            at[f].columns = (unsigned)(spot.ix0 + column) < W ? 0xffffu : 0;
            place(2 * g + 1, unused, column);
            at[f].columns |= (unsigned)(spot.ix0 + column) < W ? 0xffff0000u : 0;
            at[f].row = at[f].row % IN_H + spot.iy0;
        }
        // where this lane's row of outputs goes to, of those that stmatrix takes: rows g of a product, then g + 8
        const int second = lane / 8 % 2, i = lane % 8;
        const int unit = SIDE_BY_SIDE ? 2 * item + i / 4 : PAIRS ? 2 * item + second : item;
        const int o = STRIDE == 2 ? i : 2 * (SIDE_BY_SIDE ? i % 4 : i) + second, column = unit % SEGMENTS * SEGMENT + o;
        const bool stored = o < SEGMENT && column < TILE_W && unit < UNITS;
        const int row0 = unit / (SEGMENTS * STRIPS) * TILE_H + unit / SEGMENTS % STRIPS * STRIP;
        to = stored ? dw + (row0 * TILE_W + place_of(column)) * ROW + channel : spare;
        down = stored ? TILE_W * ROW : 0;
    }
};

// 16 bytes of x, the i-th of a tile: where they come from (below 0: zeros), and where they go to.
constexpr int UNITS_OF_X = ceil_div(C, 16), COUNT_X = STEM ? 0 : IMAGES * IN_H * IN_W * UNITS_OF_X;
struct UnitOfX {
    int from, to;

    __device__ __forceinline__ void set(int i, const Spot& spot, int N) {
        const int pixel = i / UNITS_OF_X, k = i % UNITS_OF_X * 16, column = pixel % IN_W, row = pixel / IN_W;
        const int image = spot.n0 + row / IN_H, iy = spot.iy0 + row % IN_H, ix = spot.ix0 + column;
        const bool inside = image < N && (unsigned)iy < H && (unsigned)ix < W;
        from = inside ? ((image * H + iy) * W + ix) * C + k : -1;
        to = row * X_ROW + (column % 2 * EVENS + column / 2) * ROW1 + k;
    }
    __device__ __forceinline__ void fetch(int i, const signed char* x, signed char* x_tile) const {
        const int left = C - i % UNITS_OF_X * 16;
        copy_unit<C % 16 ? 8 : 16>((uint4*)(x_tile + to), x + (from < 0 ? 0 : from), from < 0 ? 0 : left);
    }
};

// A row after the other of an item's hidden pixels.
template <bool EXACT>
__device__ __forceinline__ void walk(const Channels& of, const Item& item, int x_channel, const Spot& spot, int lane) {
    unsigned under[2] = {};  // of a stem: the pixels of the image that the next row needs as well
    const auto expand_row = [&](int(&d)[FRAGMENTS][2][4], int y) {
        if constexpr (STEM) {
            const unsigned* const words = (const unsigned*)(item.at[0].from + y * X_ROW);
            unsigned a[3][2];
#pragma unroll
            for (int ky = 0; ky < 3; ++ky)
#pragma unroll
                for (int p = 0; p < 2; ++p)
                    a[ky][p] = ky == 0 && y > 0 ? under[p] : words[ky * (PATCH / 4) + 2 * p];
            under[0] = a[2][0], under[1] = a[2][1];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                mma_bytes<false>(d[0][half], {a[0][0], a[0][1], a[1][0], a[1][1]},
                                 {of.w1[0][2 * half], of.w1[0][2 * half + 1]}, of.hidden_begin[half]);
                mma_bytes_k16<false>(d[0][half], a[2], of.w1[1][2 * half]);
            }
            return;
        }
#pragma unroll
        for (int f = 0; f < FRAGMENTS; ++f) {
#pragma unroll
            for (int k = 0; EXPAND && !STEM && k < K_STEPS; ++k)
                if (HALF_STEP && k == K_STEPS - 1) {
                    unsigned a[2];
                    ldmatrix_x2(a, item.at[f].from + y * X_ROW + k * 32);
#pragma unroll
                    for (int half = 0; half < 2; ++half)
                        if (k == 0) mma_bytes_k16<false>(d[f][half], a, of.w1[k][2 * half], of.hidden_begin[half]);
                        else mma_bytes_k16<false>(d[f][half], a, of.w1[k][2 * half]);
                } else {
                    unsigned a[4];
                    ldmatrix_x4(a, item.at[f].from + y * X_ROW + k * 32 + lane / 16 * 16);
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const unsigned b[2] = {of.w1[k][2 * half], of.w1[k][2 * half + 1]};
                        if (k == 0) mma_s8(d[f][half], a, b, of.hidden_begin[half]);
                        else mma_s8(d[f][half], a, b);
                    }
                }
            if constexpr (!EXPAND) {
                unsigned two[2];
                ldmatrix_x2(two, item.at[f].from + y * X_ROW + x_channel);
                d[f][0][0] = (int)two[0], d[f][0][1] = (int)two[1];
            }
        }
    };
    int acc[STRIP][2][4];
    const auto store_row = [&](int r) {
        int v[2][4];
#pragma unroll
        for (int e = 0; e < 8; ++e)
            v[e / 4][e % 4] = code_of<EXACT, ODD>(acc[r][e / 4][e % 4], of.dw[e / 4].multiplier[e % 2],
                                                  of.dw[e / 4].offset[e % 2]);
        stmatrix_x2(item.to + r * item.down, {pack_unsigned(v[0][0], v[0][1], v[1][0], v[1][1]),
                                              pack_unsigned(v[0][2], v[0][3], v[1][2], v[1][3])});
    };
    // The next row is expanded before this one is convolved, and outputs are stored a row later: see sliding.h.
    int d[2][FRAGMENTS][2][4];
    expand_row(d[0], 0);
#pragma unroll
    for (int y = 0; y < ROWS; ++y) {
        if (y + 1 < ROWS) expand_row(d[(y + 1) % 2], y + 1);
        if (y > 2 && (y - 3) % STRIDE == 0) store_row((y - 3) / STRIDE);
        unsigned here[FRAGMENTS][2], next[FRAGMENTS][2];
#pragma unroll
        for (int f = 0; f < FRAGMENTS; ++f) {
            const bool inside =
                (y > 0 && y < ROWS - 1 && OUT_H % TILE_H == 0) || (unsigned)(item.at[f].row + y) < H;
            const unsigned real = inside ? item.at[f].columns : 0;
            const int(&sums)[2][4] = d[y % 2][f];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                unsigned four;
                if constexpr (EXPAND) {
                    int v[4];
#pragma unroll
                    for (int e = 0; e < 4; ++e)
                        v[e] = code_of<EXACT, ODD>(sums[half][e], of.hidden[half].multiplier[e % 2],
                                                   of.hidden[half].offset[e % 2]);
                    four = pack_unsigned(v[0], v[1], v[2], v[3]);
                } else four = __byte_perm(sums[0][0], sums[0][1], half ? 0x7632 : 0x5410);
                here[f][half] = (four & real) | (spot.zeros & ~real);
                next[f][half] = __shfl_sync(ALL, here[f][half], (lane + 4) % 32);
            }
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            unsigned a[4] = {here[0][half], 0, 0, next[0][half]};
            if constexpr (STRIDE == 1) a[1] = a[2] = __byte_perm(here[0][half], next[0][half], 0x5432);
            else a[1] = here[1][half], a[2] = next[0][half], a[3] = next[1][half];
#pragma unroll
            for (int ky = 0; ky < 3; ++ky) {
                const int r = (y - ky) / STRIDE;
                if (y < ky || r * STRIDE != y - ky || r >= STRIP) continue;
                if (ky == 0) mma_bytes<EXPAND>(acc[r][half], a, of.taps[ky][half], of.dw_begin[half]);
                else mma_bytes<EXPAND>(acc[r][half], a, of.taps[ky][half]);
            }
        }
    }
    store_row(STRIP - 1);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    sliding_int8(const image_t* __restrict__ x, const signed char* __restrict__ weights,
                 const int* __restrict__ project_bias, const float* __restrict__ project_multiplier,
                 const signed char* __restrict__ residual, signed char* __restrict__ y, int N, int input_zero,
                 int hidden_zero, int zero_point, int low, int high, float scale_a, float scale_b, float shift,
                 int offset, float scale, float inverse, float most) {
    extern __shared__ uint4 shared[];
    signed char* const x_tile = (signed char*)shared;  // [IMAGES][IN_H][2][EVENS][ROW1]
    signed char* const dws = x_tile + X_SIZE;          // [DWS][M_OUT][ROW]
    signed char* const spare = dws + DWS * DW_SIZE + threadIdx.x * 16;  // for outputs that do not exist
    signed char* const stages = dws + DWS * DW_SIZE + SPARE;            // [STAGES][STAGE]
    signed char* const w3s = stages + STAGES * STAGE;                   // [W3S][O_PADDED][ROW]
    int* const places = (int*)(w3s + W3S * W3_SIZE);  // [M_OUT]: of a row of dw, where its outputs begin in y, or -1
    int4* const ends = (int4*)(places + M_OUT);       // [2][O_PADDED / 4]: of outputs, bias and multiplier
    float4* const mail = (float4*)(ends + ENDS_OUT / 16);  // [SPLIT][PART]: all blocks' sums
    Mailbox* const box = (Mailbox*)(mail + SPLIT * PART);
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
    const int rank = SPLIT > 1 ? (int)cluster_rank() : 0, tile = blockIdx.x / SPLIT;
    const int own = (SLICES - rank + SPLIT - 1) / SPLIT;  // slices: rank, rank + SPLIT, …
    const int n0 = tile / (TILES_H * TILES_W) * IMAGES;
    const int oy0 = tile / TILES_W % TILES_H * TILE_H, ox0 = tile % TILES_W * TILE_W;
    const Spot spot = {n0, oy0 * STRIDE - 1, ox0 * STRIDE - 1, (hidden_zero & 255) * 0x01010101u, {N >> 30, N >> 31}};

    const auto fetch_slice = [&](int i) {  // of this block's slices
        uint4* const stage = (uint4*)(stages + i % STAGES * STAGE);
        uint4* const w3 = (uint4*)(w3s + i % W3S * W3_SIZE) - STAGE / 16;
        const uint4* const from = (const uint4*)weights + (rank + i * SPLIT) * ((STAGE + W3_SIZE) / 16);
#pragma unroll 4
        for (int k = threadIdx.x; k < (STAGE + W3_SIZE) / 16; k += THREADS)
            cp_async_16((k < STAGE / 16 ? stage : w3) + k, from + k);
        cp_async_commit();
    };
    for (int i = threadIdx.x; i < O / 2; i += THREADS) {
        const int end = i / (O / 4), k = i % (O / 4);
        const int* const from = end ? (const int*)project_multiplier : project_bias;
        cp_async_16(ends + end * (O_PADDED / 4) + k, from + 4 * k);
    }
    fetch_slice(0);
    if constexpr (SPLIT > 1) {
        if (threadIdx.x == 0) box->open();
        cluster_started();
    }
    for (int m = threadIdx.x; m < M_OUT; m += THREADS) {
        const int image = n0 + m / (TILE_H * TILE_W), oy = oy0 + m / TILE_W % TILE_H;
        const int ox = ox0 + output_at(m % TILE_W);
        const bool there = m < PIXELS_OUT && image < N && oy < OUT_H && ox < OUT_W;
        places[m] = there ? ((image * OUT_H + oy) * OUT_W + ox) * O : -1;
    }
    for (int b = 0; b < DWS; ++b)  // rows of no pixel
        for (int i = PIXELS_OUT * ROW / 4 + threadIdx.x; i < DW_SIZE / 4; i += THREADS)
            ((unsigned*)(dws + b * DW_SIZE))[i] = 0;

    const int my_channel = warp / PIXEL_WARPS * 16, my_item = warp % PIXEL_WARPS;
    Channels prepared;
    const Item prepared_item(x_tile, dws, spare, my_item, my_channel, spot, lane);
    UnitOfX of_x[PREPARES ? TURNS_X : 1];
    if constexpr (PREPARES) {
        cp_async_wait<0>();
        __syncthreads();
        prepared.load(stages, my_channel, spot, lane);
#pragma unroll
        for (int j = 0; j < TURNS_X; ++j) of_x[j].set(threadIdx.x + j * THREADS, spot, N);
    }
    wait_for_inputs();  // until here nothing depends on the kernel before

    if constexpr (STEM) {  // 4 pixels of 3 numbers at a time, all of them inside or outside of the image
        using F = typename Four<image_t>::type;
        constexpr int WIDE = PATCH / 16, COUNT = IMAGES * (2 * IN_H + 1) * WIDE, TURNS = ceil_div(COUNT, THREADS);
        constexpr int AHEAD = TURNS < 5 ? TURNS : 5;  // turns whose numbers are on their way together
        const unsigned zeros = (input_zero & 255) * 0x01010101u;
        const Real real = {scale, inverse, most, input_zero};
#pragma unroll 1
        for (int first = threadIdx.x; first < COUNT; first += AHEAD * THREADS) {
            F v[AHEAD][3];
            bool inside[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                const int i = first + k * THREADS, row = i / WIDE, image = n0 + row / (2 * IN_H + 1);
                const int iy = 2 * spot.iy0 - 1 + row % (2 * IN_H + 1), ix = 2 * ox0 - 4 + i % WIDE * 4;
                inside[k] = i < COUNT && image < N && (unsigned)iy < STEM_H && (unsigned)ix < STEM_W;
                const F* const from = (const F*)(x + ((image * STEM_H + iy) * STEM_W + ix) * 3);
                if (inside[k]) v[k][0] = __ldg(from), v[k][1] = __ldg(from + 1), v[k][2] = __ldg(from + 2);
            }
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                unsigned a = zeros, b = zeros, c = zeros;
                if (inside[k]) a = codes_of(v[k][0], real), b = codes_of(v[k][1], real), c = codes_of(v[k][2], real);
                if (first + k * THREADS < COUNT)
                    ((uint4*)x_tile)[first + k * THREADS] =
                        make_uint4(a, __byte_perm(a, b, 0x0543), __byte_perm(b, c, 0x0432), c >> 8);
            }
        }
    }
    if constexpr (PREPARES) {
#pragma unroll
        for (int j = 0; j < TURNS_X; ++j)
            if ((int)threadIdx.x + j * THREADS < COUNT_X)
                of_x[j].fetch(threadIdx.x + j * THREADS, (const signed char*)x, x_tile);
    } else
        for (int i = threadIdx.x; i < COUNT_X; i += THREADS) {
            UnitOfX unit;
            unit.set(i, spot, N);
            unit.fetch(i, (const signed char*)x, x_tile);
        }
    cp_async_commit();
    launch_dependents();  // what follows may come and fetch its weights: behind this tile's x, and no later

    int acc[TILES_M][GROUPS][GROUP / 8][4];
    const auto begin_sums = [&] {
#pragma unroll
        for (int j = 0; j < GROUPS; ++j) {
            const int o = (warp % WARPS_N + j * WARPS_N) * GROUP + t * NEAR;
            int b[NEAR];
            get_end(b, ends, 0, rank == 0 ? o : O);  // of a cluster one block begins with the bias
#pragma unroll
            for (int m = 0; m < 2 * TILES_M; ++m)
#pragma unroll
                for (int e = 0; e < NEAR; ++e)
                    acc[m / 2][j][e / 2][m % 2 * 2 + e % 2] = rank == 0 ? begin<SMALL_PROJECT>(b[e]) : 0;
        }
    };
    const auto walk_item = [&](const Channels& of, const Item& item, const signed char* stage, int turn, int channel) {
        const int x_channel = (rank + turn * SPLIT) * SLICE + channel;
        // the multipliers of two_steps are large, those of one_step tiny
        const bool one = ONE_STEP || ((const float*)(stage + ENDS))[4 * SLICE + channel] < 1;
        if (one) walk<false>(of, item, x_channel, spot, lane);
        else walk<true>(of, item, x_channel, spot, lane);
    };
    const auto slide_slice = [&](int turn) {  // of this block's slices: to dw
        const signed char* const stage = stages + turn % STAGES * STAGE;
        signed char* const dw = dws + turn % DWS * DW_SIZE;
#pragma unroll 1
        for (int j = 0; j < PLANES; ++j) {
            const int channel = (warp / PIXEL_WARPS * PLANES + j) * 16;
            Channels of;
            of.load(stage, channel, spot, lane);
            // the warps of the same channels take items in turn, from one plane to the next
            const int first = (warp + j * (PIXEL_WARPS - ITEMS % PIXEL_WARPS)) % PIXEL_WARPS;
#pragma unroll 1
            for (int i = first; i < ITEMS; i += PIXEL_WARPS)
                walk_item(of, Item(x_tile, dw, spare, i, channel, spot, lane), stage, turn, channel);
        }
    };
    // project's weights of 32 hidden channels, from k on, and of a group of outputs
    const auto get_w3 = [&](unsigned(&b)[2][4], int turn, int k, int j) {
        const signed char* const w3 = w3s + turn % W3S * W3_SIZE;
        const int group = (warp % WARPS_N + j * WARPS_N) * GROUP;
        if (group >= O_PADDED) return;
#pragma unroll
        for (int h = 0; h < GROUP / 16; ++h)
            ldmatrix_x4(b[h], w3 + (group + 16 * h + lane / 16 * 8 + lane % 8) * ROW + k +
                                  (SLICE - k >= 32 ? lane / 8 % 2 * 16 : 0));
    };
    unsigned w3_ahead[W3_AHEAD ? K3 : 1][W3_AHEAD ? GROUPS : 1][2][4];
    const auto project_slice = [&](int turn) {
        const signed char* const dw = dws + turn % DWS * DW_SIZE;
#pragma unroll
        for (int k = 0; k < SLICE; k += 32) {
            const bool whole = SLICE - k >= 32;  // else 16 channels are left
            unsigned a[TILES_M][4];
#pragma unroll
            for (int i = 0; i < TILES_M; ++i) {
                const int m0 = (warp / WARPS_N + i * WARPS_M) * 16;
                if (m0 < M_OUT) ldmatrix_x4(a[i], dw + (m0 + lane % 16) * ROW + k + (whole ? lane / 16 * 16 : 0));
            }
#pragma unroll
            for (int j = 0; j < GROUPS; ++j) {
                if ((warp % WARPS_N + j * WARPS_N) * GROUP >= O_PADDED) continue;
                unsigned here[2][4];
                if (!W3_AHEAD) get_w3(here, turn, k, j);
                const unsigned(&b)[2][4] = W3_AHEAD ? w3_ahead[W3_AHEAD ? k / 32 : 0][W3_AHEAD ? j : 0] : here;
#pragma unroll
                for (int i = 0; i < TILES_M; ++i)
#pragma unroll
                    for (int n = 0; n < GROUP / 8; ++n) {
                        if ((warp / WARPS_N + i * WARPS_M) * 16 >= M_OUT) continue;
                        const unsigned column[2] = {b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]};
                        if (whole) mma_bytes<true>(acc[i][j][n], a[i], column);
                        else mma_bytes_k16<true>(acc[i][j][n], {a[i][0], a[i][1]}, column[0]);
                    }
            }
        }
    };
    const auto arrived = [&] {  // the next slice's weights, and dw of the slice before; dw before that has been read
        cp_async_wait<0>();
        __syncthreads();
    };

    if constexpr (PREPARES) {
        arrived();
        if (my_item < ITEMS) walk_item(prepared, prepared_item, stages, 0, my_channel);
        begin_sums();
#pragma unroll
        for (int k = 0; W3_AHEAD && k < K3; ++k)
#pragma unroll
            for (int j = 0; j < GROUPS; ++j) get_w3(w3_ahead[k][j], 0, 32 * k, j);
        __syncthreads();
        project_slice(0);
    } else if constexpr (OWN == 1) {  // sums that begin only now take no registers before
        arrived();
        slide_slice(0);
        __syncthreads();
        begin_sums();
        project_slice(0);
    } else {
#pragma unroll 1
        for (int turn = 0; turn <= own; ++turn) {
            arrived();
            if (turn == 0) begin_sums();
            if (turn + 1 < own) fetch_slice(turn + 1);
            if (turn < own) slide_slice(turn);
            if (turn > 0) project_slice(turn - 1);
        }
    }

    const Output to = {zero_point, low, high, scale_a, scale_b, shift, offset};
    const Outputs outputs = {y, residual, x_tile, places, ends, to};
#pragma unroll
    for (int j = 0; j < GROUPS; ++j)
#pragma unroll
        for (int i = 0; i < 2 * TILES_M; ++i) {
            const int m = (warp / WARPS_N + i / 2 * WARPS_M) * 16 + i % 2 * 8 + g;
            const int o = (warp % WARPS_N + j * WARPS_N) * GROUP + t * NEAR;
            if (m >= (SPLIT > 1 ? SENT : PIXELS_OUT) || o >= O) continue;
            int sum[NEAR];
#pragma unroll
            for (int e = 0; e < NEAR; ++e) sum[e] = acc[i / 2][j][e / 2][i % 2 * 2 + e % 2];
            if constexpr (SPLIT == 1) outputs.finish(m, o, sum);
            else
#pragma unroll
                for (int e = 0; e < NEAR; e += 4) {
                    const int quarter = quarter_of(m, o + e), owner = quarter / PART;
                    float4* const letter = mail + rank * PART + quarter - owner * PART;
                    const float4 four = make_float4(__int_as_float(sum[e]), __int_as_float(sum[e + 1]),
                                                    __int_as_float(sum[e + 2]), __int_as_float(sum[e + 3]));
                    if (owner == rank) *letter = four;  // a mailbox takes as long to the block itself
                    else box->send(letter, owner, four);
                }
        }
    if constexpr (SPLIT > 1) {
        const int first = rank * PART, mine = QUARTERS < first ? 0 : QUARTERS - first < PART ? QUARTERS - first : PART;
        __syncthreads();  // this block's own sums are there
        if (mine > 0 && threadIdx.x == 0) box->expect((SPLIT - 1) * mine * 16);
        box->wait(0, mine > 0);
        for (int i = threadIdx.x; i < mine; i += THREADS) {
            int sum[4] = {};
#pragma unroll
            for (int r = 0; r < SPLIT; ++r) {
                const int4 more = *(const int4*)(mail + r * PART + i);
                sum[0] += more.x, sum[1] += more.y, sum[2] += more.z, sum[3] += more.w;
            }
            const int2 at = sums_at(first + i);
            outputs.finish(at.x, at.y, sum);
        }
    }
}
