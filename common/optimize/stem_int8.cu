// stem_int8 - MobileNetV2's first block in int8 by single warps: a picture's 3×3 convolution, depthwise, 1×1.
// requires: sm_80
//
//   x (N, STEM_H, STEM_W, 3) of codes or of real numbers, residual and y (N, H, W, 16): NHWC. weights: for each 16 of
//   the 32 hidden channels the words of the lanes and ends, then the ends of project, as of alone_int8.cu
//   (blocks_int8.py, Slid.stem). The bits are those of sliding_int8.
//
// It is alone_int8.cu for a stem. A warp walks down STRIP rows of 14 columns of outputs, an item, with all 32 hidden
// channels at once. So sums of project do not wait, and a strip may be as high as the image. A step:
//
//     2 rows of a picture ──quantize──► codes ──expand──► 16 pixels × 32 ──depthwise──► 14 outputs × 32 ──project──► y
//     cp.async                          shared    mma     registers          mma        registers          mma
//
//   Row h of hidden pixels is made of the picture's rows 2h − 1, 2h and 2h + 1. In each of these, a hidden pixel needs
//   9 neighbouring numbers, those of 3 pixels. The 27 are columns of one product of 32. A lane has of pixels 2g, 2g + 1
//
//     t = 0, 1, 2     numbers 1 … 8 of row t, two words. Those of pixel 2g + 1 begin in the middle of a word
//     t = 3           number 0 of the three rows: a word of `firsts`, which lanes put beside the codes
//
//     a row's bytes     … 12g + 3 │ 12g + 4 … 7 │ 8 … 11 │ 12 … 15 │ 16 … 19
//     pixel 2g                  0 │ 1  2  3  4  │ 5 … 8  │
//     pixel 2g + 1                              │   0 1 2│ 3 … 6   │ 7 8
//
//   Depthwise is that of alone_int8.cu. Rows are unrolled by three, as a row of outputs is made of three. The loop is
//   the same for all rows, also for those at the beginning of an item, which belong to no output.
//
//   A number becomes a code + 128 by v · (1 / scale), with a 1 / scale of two floats, or of one where that is enough
//   (blocks_int8.py, `factors`), and an fma that rounds as in one_step.h, and makes NaN the least code.
//
//   Four channels, one of each lane t, are requantized alike. Those that take two roundings come last: the last SLOW
//   fours of the hidden channels; of the outputs 4t + j those with bit j in SLOW_OUTPUTS.
#include "block_int8.h"

#ifndef ODD_PICTURE
#define ODD_PICTURE 1  // whether the zero point of a picture of real numbers may be odd
#endif
#ifndef FACTORS
#define FACTORS 2  // floats that are together 1 / scale
#endif
#ifndef SLOW
#define SLOW 8
#endif
#ifndef SLOW_OUTPUTS
#define SLOW_OUTPUTS 15
#endif

constexpr int O = 16, H = HEIGHT, W = WIDTH, COLUMNS = 14, SEGMENTS = W / COLUMNS;
constexpr int ITEMS = SEGMENTS * ceil_div(H, STRIP);  // of an image
constexpr int STEPS = ceil_to(STRIP + 4, 3);          // of an item
constexpr int DOWN = 3 * STEM_W;                      // numbers of a row of the picture
// bytes of a warp in shared memory: six pairs of rows of the picture, 4 numbers of each lane; three of codes
constexpr int UNIT = 4 * sizeof(image_t), LANES = 26, PAIR = 2 * 32 * UNIT, RAW = 6 * PAIR;
// words of a pair of codes: its even row, its odd row, firsts, room for lanes that have none. The three rows that are
// read at once lie in different banks
constexpr int ODD_ROW = 36, FIRSTS = 68, SLOT = 124, MINE = RAW + 3 * SLOT * 4;
// words of a lane for 16 hidden channels: expand [2][2], depthwise [2][3][2], project [2]; ends as of alone_int8.cu
constexpr int TAPS_0 = 4, PROJECT_0 = 16, WORDS = 20, PLANE = 8 * WORDS + 32, Y_ENDS = 2 * PLANE;
static_assert(EXPAND && STRIDE == 1 && HIDDEN == 32 && OUTPUTS == O, "channels");
static_assert(W % COLUMNS == 0 && STEM_W == 2 * W && H == (STEM_H - 1) / 2 + 1, "columns");
constexpr unsigned ALL = 0xffffffffu;

struct Item {
    int image, ox, oy;
    __device__ __forceinline__ explicit Item(int index) {
        image = (unsigned)index / ITEMS;
        const unsigned rest = index - image * ITEMS;
        oy = rest / SEGMENTS, ox = (rest - oy * SEGMENTS) * COLUMNS, oy *= STRIP;
    }
};

// ---- The picture

struct Real {
    float high, low, zero;  // 1 / scale is high + low; zero: zero point + 128 in units of 2^-149
};
__device__ __forceinline__ int code_of_real(float v, const Real& to) {
    const float about = FACTORS == 1 ? __fmul_rn(v, to.high) : __fmaf_rn(v, to.high, __fmul_rn(v, to.low));
    const float unit = __int_as_float(1);
    if (ODD_PICTURE) return __float_as_int(fma_saturated(fma_of_small(about, unit, 0.0f), 1.0f, to.zero));
    return __float_as_int(fma_saturated(about, unit, to.zero));
}
template <class T> struct Four;
template <> struct Four<signed char> { using type = unsigned; };
template <> struct Four<__half> { using type = uint2; };
template <> struct Four<float> { using type = float4; };
__device__ __forceinline__ unsigned codes_of(unsigned four, const Real&) { return four ^ 0x80808080u; }
__device__ __forceinline__ unsigned codes_of(float4 v, const Real& to) {
    return pack_unsigned(code_of_real(v.x, to), code_of_real(v.y, to), code_of_real(v.z, to), code_of_real(v.w, to));
}
__device__ __forceinline__ unsigned codes_of(uint2 v, const Real& to) {
    const unsigned short a = v.x, b = v.x >> 16, c = v.y, d = v.y >> 16;
    return codes_of(make_float4(__half2float(__ushort_as_half(a)), __half2float(__ushort_as_half(b)),
                                __half2float(__ushort_as_half(c)), __half2float(__ushort_as_half(d))), to);
}

struct Stream {  // pairs of rows of the picture on their way, from the first item of a warp to its last
    const image_t *x, *from;
    int index, row, end, lane;  // rows: of the picture, the next pair's first, and behind the last that the lane has
    unsigned zeros;

    __device__ __forceinline__ void begin(int all) {
        const Item item(index < all ? index : 0);
        const int first = (2 * item.ox - 4) * 3 + lane * 4;
        row = 2 * (item.oy - 2);
        end = 2 * (item.oy + STRIP) + 2 < STEM_H ? 2 * (item.oy + STRIP) + 2 : STEM_H;
        if ((unsigned)first >= DOWN || lane >= LANES || index >= all) end = 0;
        end = here(end);
        from = x + (item.image * STEM_H + 2 * (item.oy - 2)) * DOWN + first;
    }
    // The next three pairs.
    __device__ __forceinline__ void bring(char* to) {
#pragma unroll
        for (int i = 0; i < 6; ++i) {
            const bool inside = (unsigned)(row + (STEM_H % 2 ? i : i / 2 * 2)) < (unsigned)end;
            const image_t* const four = from + i * DOWN;
            char* const there = to + i * 32 * UNIT;
            if (UNIT == 16) cp_async_16(there, four, inside);
            else if (UNIT == 8) cp_async_8(there, four, inside);
            else if (inside) cp_async_4(there, four);
            else *(unsigned*)there = zeros;  // codes of zeros; a real number 0 becomes its code
        }
        cp_async_commit();
        row += 6, from += 6 * DOWN;
    }
};

// ---- Hidden channels

__device__ __forceinline__ void begin_at(int (&d)[4], const uint4* from) {
    const uint4 four = __ldg(from);
    d[0] = (int)four.x, d[1] = (int)four.y, d[2] = (int)four.z, d[3] = (int)four.w;
}
__device__ __forceinline__ int code_at(bool slow, int sum, float multiplier, float offset) {
    return slow ? code_of<true, ODD>(sum, multiplier, offset) : code_of<false, ODD>(sum, multiplier, offset);
}
// Whether a channel of a lane takes two roundings: the first or second one of eight h.
__device__ __forceinline__ constexpr bool is_slow(int h, int which) { return 2 * h + which >= 8 - SLOW; }

struct Weights {  // what a lane needs
    unsigned expand[4][2], taps[4][3][2], project[2][2];
    int hidden_begin[4][4], dw_begin[4][4], y_begin[2][4];
    End of_hidden[4], of_dw[4], of_y[2];

    __device__ __forceinline__ Weights(const uint4* from, int lane) {
        const int t = lane % 4;
#pragma unroll
        for (int p = 0; p < 2; ++p) {
            const uint4* const plane = from + p * PLANE;
            unsigned words[WORDS];
            words_of(words, plane, lane);
#pragma unroll
            for (int i = 0; i < 4; ++i) expand[2 * p + i / 2][i % 2] = words[i];
#pragma unroll
            for (int i = 0; i < 12; ++i) taps[2 * p + i / 6][i % 6 / 2][i % 2] = words[TAPS_0 + i];
#pragma unroll
            for (int n = 0; n < 2; ++n) project[n][p] = words[PROJECT_0 + n];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const uint4* const ends = plane + 8 * WORDS + 16 * i + t;
                for (int half = 0; half < 2; ++half)
                    begin_at((i ? dw_begin : hidden_begin)[2 * p + half], ends + 4 * half);
                both((i ? of_dw : of_hidden) + 2 * p, ends + 8, ends + 12);
            }
        }
#pragma unroll
        for (int n = 0; n < 2; ++n) begin_at(y_begin[n], from + Y_ENDS + 4 * n + t);
        both(of_y, from + Y_ENDS + 8 + t, from + Y_ENDS + 12 + t);
    }
    // The ends of a lane's four channels.
    __device__ __forceinline__ static void both(End* to, const uint4* multipliers, const uint4* offsets) {
        const uint4 m = __ldg(multipliers), o = __ldg(offsets);
        // offsets lie the other way round, see alone_int8.cu
        to[0] = {{__uint_as_float(m.x), __uint_as_float(m.y)}, {__uint_as_float(o.y), __uint_as_float(o.x)}};
        to[1] = {{__uint_as_float(m.z), __uint_as_float(m.w)}, {__uint_as_float(o.w), __uint_as_float(o.z)}};
    }
};

struct Outputs {  // of a lane's two pixels in a row
    unsigned* y;
    const unsigned* residual;
    int rows;  // of the item, that are stored

    __device__ __forceinline__ void store(int row, int down, unsigned even, unsigned odd, const Output& to) const {
        if ((unsigned)row >= (unsigned)rows) return;
        constexpr int WORDS_OF_PIXEL = O / 4;
        constexpr bool FULL = SMALL_PROJECT >= 2;
        const int at = down * (W * WORDS_OF_PIXEL);
        if (RESIDUAL) {
            even = add_words<FULL>(even, __ldg(residual + at), to);
            odd = add_words<FULL>(odd, __ldg(residual + at + WORDS_OF_PIXEL), to);
        }
        y[at] = even, y[at + WORDS_OF_PIXEL] = odd;
    }
};

struct Rows {
    const Weights& w;
    const Real& real;
    Stream& stream;
    char* shared;
    // where this lane's bytes are in shared memory: of the picture, three of the six pairs, and the other three; where
    // it puts codes, and its word of firsts; where it reads them, by pairs
    int now, later, to, to_firsts, at[3];
    int right;  // the lane of the next pixels
    // selectors of bytes: 0x5432, of which no compiler knows it, and would copy what it selects twice before each
    // product; of what a lane reads; of a pixel's first number in four
    unsigned also_middle, of_t, first;
    unsigned ninth;  // the word of firsts
    unsigned a[4], two[4][4];
    int acc[3][4][4];

    // The pair at `raw` to the codes of pair S.
    template <int S> __device__ __forceinline__ void quantize(int raw) {
        using F = typename Four<image_t>::type;
        const char* const pair = shared + raw;
        const unsigned even = codes_of(*(const F*)pair, real), odd = codes_of(*(const F*)(pair + 32 * UNIT), real);
        unsigned* const there = (unsigned*)(shared + to) + S * SLOT;
        there[0] = even, there[ODD_ROW] = odd;
        ninth = __byte_perm(ninth, __byte_perm(even, odd, first), 0x3542);
        *((unsigned*)(shared + to_firsts) + S * SLOT) = ninth;
    }
    // Of pair S and the row above it, this lane's part of expand's products.
    template <int S> __device__ __forceinline__ void load() {
        __syncwarp();
        const unsigned* const from = (const unsigned*)(shared + at[S]);
        const unsigned w0 = from[0], w1 = from[1], w2 = from[2], w3 = from[3];
        a[0] = w0, a[1] = __byte_perm(w1, w2, of_t), a[2] = w1, a[3] = __byte_perm(w2, w3, of_t);
    }
    template <int KY, int I> __device__ __forceinline__ void convolve() {
#pragma unroll
        for (int h = 0; h < 4; ++h)
            if (KY == 0) mma_bytes<true>(acc[I][h], two[h], w.taps[h][0], w.dw_begin[h]);
            else mma_bytes<true>(acc[(I + 3 - KY) % 3][h], two[h], w.taps[h][KY]);
    }
    // A row of hidden pixels, as the depthwise products take it. columns: which bytes lie in the image.
    __device__ __forceinline__ void put(const int (&d)[4][4], unsigned columns, unsigned zeros) {
#pragma unroll
        for (int h = 0; h < 4; ++h) {
            const End& end = w.of_hidden[h];
            int v[4];
#pragma unroll
            for (int e = 0; e < 4; ++e)
                v[e] = code_at(is_slow(h, e % 2), d[h][e], end.multiplier[e % 2], end.offset[e % 2]);
            const unsigned four = (pack_unsigned(v[0], v[1], v[2], v[3]) & columns) | (zeros & ~columns);
            const unsigned next = __shfl_sync(ALL, four, right);
            two[h][0] = four, two[h][1] = __byte_perm(four, next, 0x5432);
            two[h][2] = __byte_perm(four, next, also_middle), two[h][3] = next;
        }
    }
    // Row y = k − 1 + I of the hidden pixels is convolved, row y + 1, the image's row h + I, is expanded, and row y + 2
    // comes. Row y − 3 of the outputs is over, and is stored. columns: which bytes lie in the image.
    template <int I>
    __device__ __forceinline__ void step(int k, int h, unsigned columns, unsigned zeros, const Outputs& outputs,
                                         const Output& to) {
        const bool inside = (unsigned)(h + I) < H;
        int d[4][4];
#pragma unroll
        for (int n = 0; n < 4; ++n) mma_bytes<true>(d[n], a, w.expand[n], w.hidden_begin[n]);
        if (I == 1) cp_async_wait<1>();
        quantize<(I + 2) % 3>(I == 0 ? now + 2 * PAIR : later + (I - 1) * PAIR);
        load<(I + 2) % 3>();
        if (I == 0) stream.bring(shared + now);
        convolve<2, I>(), convolve<1, I>();
        unsigned of[4];  // of each 16 channels the even outputs, the odd ones
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int v[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int n = i / 2 * 2 + e / 2;
                const End& end = w.of_dw[n];
                v[e] = code_at(is_slow(n, e % 2), acc[I][n][i % 2 * 2 + e % 2], end.multiplier[e % 2],
                               end.offset[e % 2]);
            }
            of[i] = pack_unsigned(v[0], v[1], v[2], v[3]);
        }
        convolve<0, I>();
        int sums[2][4];
#pragma unroll
        for (int n = 0; n < 2; ++n) mma_bytes<true>(sums[n], of, w.project[n], w.y_begin[n]);
        put(d, inside ? columns : 0, zeros);
        outputs.store(k - 4 + I, I, codes_of_y(sums, 0), codes_of_y(sums, 2), to);
    }
    __device__ __forceinline__ unsigned codes_of_y(const int (&sums)[2][4], int e) const {
        int v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k)
            v[k] = code_at(SLOW_OUTPUTS >> k & 1, sums[k / 2][e + k % 2], w.of_y[k / 2].multiplier[k % 2],
                           w.of_y[k / 2].offset[k % 2]);
        return pack_unsigned(v[0], v[1], v[2], v[3]) ^ 0x80808080u;
    }
};

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS)
    stem_int8(const image_t* __restrict__ x, const uint4* __restrict__ weights,
              const signed char* __restrict__ residual, signed char* __restrict__ y, int N, int input_zero,
              int hidden_zero, int zero_point, int low, int high, float scale_a, float scale_b, float shift, int offset,
              float inverse, float rest) {
    extern __shared__ uint4 shared[];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = __shfl_sync(ALL, threadIdx.x / 32, 0);
    const int raw = warp * MINE + lane * UNIT, codes = warp * MINE + RAW;
    const int all = N * ITEMS, step = gridDim.x * WARPS;
    int index = blockIdx.x * WARPS + warp;
    const unsigned zeros = (hidden_zero & 255) * 0x01010101u;
    const Real real = {inverse, rest, __int_as_float(input_zero + 128)};
    const Output to = {zero_point, low, high, scale_a, scale_b, shift, offset};
    const Weights w(weights, lane);

    wait_for_inputs();  // until here nothing depends on the kernel before
    Stream stream = {x, x, index, 0, 0, lane, (input_zero & 255) * 0x01010101u};
    stream.begin(all);
    for (int i = 0; i < 2; ++i) stream.bring((char*)shared + raw + i * 3 * PAIR);
    launch_dependents();

    Rows rows = {w, real, stream, (char*)shared, raw, raw + 3 * PAIR};
    const bool has_first = lane < 24 && lane % 3 != 1;
    rows.to = here(codes + 4 * lane);
    const int unused = lane < 24 ? 24 + lane / 3 : lane - 8;
    rows.to_firsts = here(codes + 4 * (FIRSTS + (has_first ? lane / 3 * 2 + lane % 3 / 2 : unused)));
#pragma unroll
    for (int i = 0; i < 3; ++i) {  // of the pair before the odd row, of this one both, and firsts
        const int row = t == 0 ? (i + 2) % 3 * SLOT + ODD_ROW : i * SLOT + (t == 1 ? 0 : t == 2 ? ODD_ROW : FIRSTS);
        rows.at[i] = here(codes + 4 * (row + (t < 3 ? 3 * g + 1 : 2 * g)));
    }
    rows.right = here((lane + 4) % 32);
    rows.also_middle = 0x5432 + (N >> 31), rows.of_t = here(t < 3 ? 0x5432 : 0x3210);
    rows.first = here(lane % 3 == 0 ? 0x73 : 0x51), rows.ninth = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        rows.two[i / 4][i % 4] = 0;
#pragma unroll
        for (int k = 0; k < 3; ++k) rows.acc[k][i / 4][i % 4] = 0;
    }
    cp_async_wait<1>();
    rows.quantize<0>(raw), rows.quantize<1>(raw + PAIR), rows.load<1>();
    for (; index < all; index += step) {
        const Item item(index);
        const int q = item.ox - 1 + 2 * g;
        const unsigned columns = ((unsigned)q < W ? 0xffffu : 0) | ((unsigned)(q + 1) < W ? 0xffff0000u : 0);
        const int place = ((item.image * H + item.oy - 4) * W + item.ox + 2 * g) * O + 4 * t;
        const int left = H - item.oy < STRIP ? H - item.oy : STRIP;
        Outputs outputs = {(unsigned*)(y + place), (const unsigned*)(residual + (RESIDUAL ? place : 0)),
                           here(g < 7 ? left : 0)};
#pragma unroll 1
        for (int k = 0; k < STEPS; k += 3) {  // rows k − 1, k, k + 1
            if (k == STEPS - 6) {  // the pairs after those that are on their way are the next item's
                stream.index += step;
                stream.begin(all);
                __syncwarp();  // or a compiler would make of the branch as many instructions in every turn
            }
            const int h = item.oy + k - 1;
            rows.step<0>(k, h, columns, zeros, outputs, to);
            rows.step<1>(k, h, columns, zeros, outputs, to);
            rows.step<2>(k, h, columns, zeros, outputs, to);
            const int before = rows.now;
            rows.now = rows.later, rows.later = before;
            outputs.y += 3 * (W * O / 4), outputs.residual += 3 * (W * O / 4);
        }
    }
    cp_async_wait<0>();
}
