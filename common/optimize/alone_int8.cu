// alone_int8 - MobileNetV2's block in int8 by single warps: no warp waits for another one.
// requires: sm_80
//
//   x (N, H, W, C), residual and y (N, OUT_H, OUT_W, O): NHWC. weights: of each 16 hidden channels the words of the 32
//   lanes, then those ends that lanes with the same t share; after all of them the ends of project (blocks_int8.py,
//   Slid.alone). The bits are those of inverted_residual_int8.
//
//   Beside the image a hidden pixel is the zero of its padding. There sums begin at a number that gives this code, and
//   x is 0: so a row of the image takes no instruction for its padding.
//
// It is fused/alone.h in int8: a warp takes 14 columns of outputs, STRIP rows of them, an item, and of each row of
// hidden pixels it expands 16 channels, convolves and projects them. What one step makes is in registers as the next
// one needs it:
//
//     16 pixels of x × C  ──expand──►  16 pixels × 16 hidden  ──depthwise──►  16 outputs × 16  ──project──►  sums
//     shared, ldmatrix        mma      codes, a shuffle            mma         codes              mma        registers
//
//   Rows 0 … 7 of a product are every second pixel, rows 8 … 15 those between. Columns 2t and 2t + 1 of the first eight
//   channels and of the second are channels 4t … 4t + 3: of a lane they fill a register, an operand of project.
//   Under three taps of a row lies one product of 32 columns, as in sliding_int8.cu:
//
//                  stride 1                                           stride 2
//     output 2g    (2g, 2g + 1)        (2g + 1, 2g + 2)               (4g, 4g + 1)          (4g + 2, 4g + 3)
//     2g + 1       (2g + 1, 2g + 2)    (2g + 2, 2g + 3)               (4g + 2, 4g + 3)      (4g + 4, 4g + 5)
//     taps         (0, 1)              (none, 2)                      (0, 1)                (2, none)
//
//   The last one is the next lane's. Requantization is as in sliding_int8.cu: an fma and half an instruction a number;
//   channels that take more lie together (one_step.h). For many images bands_int8.cu is faster on an H200: no row of
//   hidden pixels is made twice, and no pixel is asked of another lane. At stride 2 sliding_int8.cu often is, too.
#include "block_int8.h"

constexpr int C = CHANNELS, O = OUTPUTS, H = HEIGHT, W = WIDTH, ST = STRIDE, THREADS = 32 * WARPS;
constexpr int COLUMNS = 14, OUT_H = (H - 1) / ST + 1, OUT_W = (W - 1) / ST + 1;
constexpr int SEGMENTS = OUT_W / COLUMNS, ITEMS = SEGMENTS * ceil_div(OUT_H, STRIP);  // of an image
constexpr int ROWS = (STRIP - 1) * ST + 3, PX = 16 * ST, PLANES = HIDDEN / 16, EIGHTS = O / 8, PAIRS = ceil_div(O, 16);
constexpr int STEPS = ceil_div(C, 32);                  // of expand's products
constexpr bool HALF_STEP = C % 32 > 0 && C % 32 <= 16;  // the last product has 16 columns
// bytes of a pixel, of a row and of an item in shared memory
constexpr int PIXEL = ceil_to(C, 16), X_ROW = PX * PIXEL, X = ROWS * X_ROW, BUFFERS = 2;
// words of a lane for 16 hidden channels: expand, depthwise [2][3][2], project; then ends, int4 [8][4]: of expand and
// of depthwise where sums of each half of the channels begin, multipliers, offsets; and where those of expand begin
// beside the image, [2][4]
constexpr int TAPS_0 = 4 * STEPS - 2 * HALF_STEP, PROJECT_0 = TAPS_0 + 12, WORDS = ceil_to(PROJECT_0 + EIGHTS, 4);
constexpr int BESIDE = 32, PLANE = 8 * WORDS + 40;  // uint4 in shared memory
constexpr int Y_ENDS = PLANES * PLANE, ALL = Y_ENDS + O / 2 + O / 2;
static_assert(EXPAND && STEM_H == 0 && HIDDEN % 16 == 0 && C % 8 == 0 && O % 8 == 0, "channels");
static_assert(OUT_W % COLUMNS == 0 && W == OUT_W * ST, "columns");
static_assert(X >= STRIP * 16 * O, "y is put where x was");

// Where pixel q of a row lies, and which of 16 bytes is where: 8 pixels that are read at once lie in all banks.
__device__ __forceinline__ unsigned place_of(unsigned q) {
    return ST == 1 ? q % 2 * 8 + q / 2 : (q % 2 * 2 + q / 2 % 2) * 8 + q / 4;
}
__device__ __forceinline__ unsigned exchanged(unsigned index, unsigned piece) {
    constexpr unsigned PIECES = PIXEL / 16;
    return PIECES == 2 || PIECES == 4 || PIECES == 8 ? piece ^ index / (8 / PIECES) % PIECES : piece;
}

struct Item {
    int image, ox, oy;
    __device__ __forceinline__ explicit Item(int index) {
        image = (unsigned)index / ITEMS;
        const unsigned rest = index - image * ITEMS;
        oy = rest / SEGMENTS, ox = (rest - oy * SEGMENTS) * COLUMNS, oy *= STRIP;
    }
};

// Where sums begin: those of a row of pixels, and of the one eight rows on, alike.
__device__ __forceinline__ void begin_at(int (&d)[4], const uint4* from) {
    const uint4 four = *from;
    d[0] = (int)four.x, d[1] = (int)four.y, d[2] = (int)four.z, d[3] = (int)four.w;
}

// Of 16 hidden channels what a lane needs: `count` words from word `first` on; where sums begin; their ends.
template <int COUNT>
__device__ __forceinline__ void get_words(unsigned (&words)[COUNT], const uint4* plane, int first, int lane) {
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        const uint4 four = plane[(first + i) * 8 + lane];
        words[i] = four.x, words[i + 1] = four.y, words[i + 2] = four.z, words[i + 3] = four.w;
    }
}
__device__ __forceinline__ void get_ends(int (&begin)[2][4], End (&end)[2], const uint4* ends, int lane) {
    for (int half = 0; half < 2; ++half) begin_at(begin[half], ends + 4 * half + lane % 4);
    ends_of(end, ends[8 + lane % 4], ends[12 + lane % 4]);
}
struct Place {  // of a lane in an item: the first row; where its first pixel's ends lie, and the second one's
    int row, first, second;
    __device__ __forceinline__ Place(const Item& item, int g) : row(item.oy * ST - 1) {
        const int x = item.ox * ST - 1 + 2 * ST * g;
        first = (unsigned)x < W ? 0 : BESIDE, second = ST == 1 && (unsigned)(x + 1) >= W ? BESIDE : 0;
    }
    __device__ __forceinline__ bool is_inside(int y) const { return (unsigned)(row + y) < H; }
};

struct Expanding {
    unsigned words[ceil_to(TAPS_0, 4)];
    int begin[2][4], edge[2][4];  // edge: of the products of which one pixel in two may lie beside the image
    End end[2];

    __device__ __forceinline__ void get(const uint4* plane, const Place& place, int lane) {
        const uint4* const ends = plane + 8 * WORDS;
        get_words(words, plane, 0, lane);
        get_ends(begin, end, ends, lane);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int2 first = *(const int2*)(ends + place.first + 4 * half + lane % 4);
            edge[half][0] = first.x, edge[half][1] = first.y;
            const int2 second = *(const int2*)(ends + place.second + 4 * half + lane % 4);
            // (here: of numbers that it knows to be begin's the compiler makes copies for every product)
            edge[half][2] = ST == 2 ? here(second.x) : second.x, edge[half][3] = ST == 2 ? here(second.y) : second.y;
        }
    }
    // p: which of a row's products.
    __device__ __forceinline__ void expand(int (&d)[4], int p, int half, int k, const unsigned (&a)[4]) const {
        const bool is_half = HALF_STEP && k == STEPS - 1;
        const int(&from)[4] = p == 0 ? edge[half] : begin[half];
        const unsigned first = words[4 * k + (is_half ? half : 2 * half)];
        if (is_half && k == 0) mma_bytes_k16<false>(d, {a[0], a[1]}, first, from);
        else if (is_half) mma_bytes_k16<false>(d, {a[0], a[1]}, first);
        else if (k == 0) mma_s8(d, a, {first, words[4 * k + 2 * half + 1]}, from);
        else mma_s8(d, a, {first, words[4 * k + 2 * half + 1]});
    }
};
struct Convolving {
    static constexpr int FIRST = TAPS_0 / 4 * 4;
    unsigned words[WORDS - FIRST];
    int begin[2][4];
    End end[2];

    __device__ __forceinline__ Convolving(const uint4* plane, int lane) {
        get_words(words, plane, FIRST, lane);
        get_ends(begin, end, plane + 8 * WORDS + 16, lane);
    }
    __device__ __forceinline__ void depthwise(int (&d)[4], int half, int ky, const unsigned (&a)[4]) const {
        const unsigned* const taps = words + TAPS_0 - FIRST + 6 * half + 2 * ky;
        const unsigned b[2] = {taps[0], taps[1]};
        if (ky == 0) mma_bytes<true>(d, a, b, begin[half]);
        else mma_bytes<true>(d, a, b);
    }
    __device__ __forceinline__ unsigned project(int n) const { return words[PROJECT_0 - FIRST + n]; }
};
// Whether one fma requantizes these channels: the multipliers of two roundings are large, those of one tiny.
__device__ __forceinline__ bool in_one_step(const uint4* plane) { return __uint_as_float(plane[8 * WORDS + 8].x) < 1; }

// A row of outputs of 16 channels, for project: even outputs, odd ones.
template <bool EXACT>
__device__ __forceinline__ void codes_of_dw(unsigned (&of)[2], const int (&sums)[2][4], const End (&end)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
        of[i] = codes<EXACT>(sums[0][2 * i], sums[0][2 * i + 1], sums[1][2 * i], sums[1][2 * i + 1], end[0], end[1]);
}
// A row of eight hidden channels, as the depthwise products take it.
template <bool EXACT>
__device__ __forceinline__ void codes_of_hidden(unsigned (&two)[4], const int (&d)[ST][4], const End& end, bool inside,
                                                unsigned zeros, int lane) {
    unsigned v[ST];
#pragma unroll
    for (int i = 0; i < ST; ++i) {
        const int(&last)[4] = d[ST - 1];
        const unsigned four = ST == 1
                                  ? codes<EXACT>(d[0][0], d[0][1], d[0][2], d[0][3], end, end)
                                  : codes<EXACT>(d[0][2 * i], d[0][2 * i + 1], last[2 * i], last[2 * i + 1], end, end);
        v[i] = inside ? four : zeros;
    }
    const unsigned next = __shfl_sync(0xffffffffu, v[0], (lane + 4) % 32);
    two[0] = v[0], two[3] = next;
    two[1] = two[2] = ST == 1 ? __byte_perm(v[0], next, 0x5432) : v[ST - 1];
}

// x of an item, on its way.
__device__ __forceinline__ void fetch(const signed char* x, int index, signed char* to, int lane) {
    constexpr int UNIT = C % 16 ? 8 : 16, PIECES = C / UNIT, P = PX * PIECES, U = P % 32 ? 2 : 1, J = U * P / 32;
    static_assert(U * P % 32 == 0, "pieces");
    const Item item(index);
    const int x0 = item.ox * ST - 1, y0 = item.oy * ST - 1;
#pragma unroll
    for (int j = 0; j < J; ++j) {
        const unsigned i = lane + 32 * j, row = i / P, q = i % P / PIECES, byte = i % PIECES * UNIT;
        const bool column = (unsigned)(x0 + (int)q) < W;
        const signed char* const from = x + ((item.image * H + y0 + (int)row) * W + x0 + (int)q) * C + byte;
        signed char* const there =
            to + row * X_ROW + place_of(q) * PIXEL + exchanged(q / (2 * ST), byte / 16) * 16 + byte % 16;
#pragma unroll
        for (int r = 0; r < ROWS; r += U) {
            if (ROWS % U && r + (int)row >= ROWS) continue;
            const bool inside = column && (unsigned)(y0 + (int)row + r) < H;
            const signed char* const source = inside ? from + r * W * C : x;
            if (UNIT == 16) cp_async_16(there + r * X_ROW, source, inside);
            else cp_async_8(there + r * X_ROW, source, inside);
        }
    }
}

// An item's rows of x on their way through expand.
struct Rows {
    const signed char* x;
    unsigned a[2][ST][STEPS][4];
    int d[2][ST][4];

    __device__ __forceinline__ void load(int y, int lane) {
#pragma unroll
        for (int p = 0; p < ST; ++p)
#pragma unroll
            for (int k = 0; k < STEPS; ++k) {
                const signed char* const from = x + y * X_ROW + (p * 16 + lane % 16) * PIXEL;
                unsigned(&to)[4] = a[y % 2][p][k];
                if (HALF_STEP && k == STEPS - 1) {
                    unsigned low[2];
                    ldmatrix_x2(low, from + exchanged(lane % 8, 2 * k) * 16);
                    to[0] = low[0], to[1] = low[1];
                } else ldmatrix_x4(to, from + exchanged(lane % 8, 2 * k + lane / 16) * 16);
            }
    }
    __device__ __forceinline__ void expand(int y, const Expanding& w) {
#pragma unroll
        for (int k = 0; k < STEPS; ++k)
#pragma unroll
            for (int i = 0; i < 2 * ST; ++i) w.expand(d[i % 2][i / 2], i / 2, i % 2, k, a[y % 2][i / 2][k]);
    }
};

// 16 hidden channels of an item: while row y is convolved, y + 1 is expanded and x of y + 2 comes; an output is
// projected a step after its last row. Row 0 has been expanded; at the end it is, with the next channels' weights.
template <bool EXACT>
__device__ __forceinline__ void add_plane(int (&sums)[STRIP][EIGHTS][4], Rows& rows, Expanding& w, const uint4* plane,
                                          const uint4* next, const Place& place, unsigned zeros, int lane) {
    unsigned two[2][4];
    int acc[3][2][4];
    const Convolving c(plane, lane);
    const auto put = [&](int y) {
        const bool inside = (y > 0 && y < ROWS - 1 && OUT_H % STRIP == 0) || place.is_inside(y);
#pragma unroll
        for (int half = 0; half < 2; ++half)
            codes_of_hidden<EXACT>(two[half], rows.d[half], w.end[half], inside, zeros, lane);
    };
    const auto convolve = [&](int y, int ky) {
        const int r = (y - ky) / ST;
        if (y < ky || r * ST != y - ky || r >= STRIP) return;
#pragma unroll
        for (int half = 0; half < 2; ++half) c.depthwise(acc[r % 3][half], half, ky, two[half]);
    };
    put(0);
#pragma unroll
    for (int y = 0; y <= ROWS; ++y) {
        const bool is_over = y >= 3 && (y - 3) % ST == 0;  // a row of outputs, since the step before
        const int r = is_over ? (y - 3) / ST : 0;
        if (y + 1 < ROWS) rows.expand(y + 1, w);
        if (y + 1 <= ROWS) rows.load((y + 2) % ROWS, lane);
        if (y == ROWS - 1) w.get(next, place, lane);
        if (y < ROWS) convolve(y, 2), convolve(y, 1);
        unsigned of[2];
        if (is_over) codes_of_dw<EXACT>(of, acc[r % 3], c.end);
        if (y < ROWS) convolve(y, 0);
        if (y == ROWS - 1) rows.expand(0, w);
        if (is_over)
#pragma unroll
            for (int n = 0; n < EIGHTS; ++n) mma_bytes_k16<true>(sums[r][n], of, c.project(n));
        if (y + 1 < ROWS) put(y + 1);
    }
}

// y where x was: [row][pixel][channel], of 16 pixels, not yet with the residual.
__device__ __forceinline__ void put_sums(signed char* here, const int (&sums)[STRIP][EIGHTS][4], const float* ends,
                                         int g, int t) {
#pragma unroll
    for (int pair = 0; pair < PAIRS; ++pair) {
        constexpr int LAST = EIGHTS - 1;
        const int first = 2 * pair, second = first < LAST ? first + 1 : first;
        const bool one = ONE_STEP || ends[16 * pair] < 1;
#pragma unroll
        for (int r = 0; r < STRIP; ++r)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                signed char* const to = here + (r * 16 + 2 * g + i) * O + first_output(pair, t);
                const unsigned four = one ? codes_of_y<false>(ends, pair, t, sums[r][first], sums[r][second], i)
                                          : codes_of_y<true>(ends, pair, t, sums[r][first], sums[r][second], i);
                if (first < LAST) *(unsigned*)to = four;
                else *(unsigned short*)to = (unsigned short)four;
            }
    }
}
__device__ __forceinline__ void copy_out(signed char* y, const signed char* residual, const Item& item,
                                         const signed char* here, const Output& output, int lane) {
    constexpr int OF_ROW = COLUMNS * O / 16;
    const int at = ((item.image * OUT_H + item.oy) * OUT_W + item.ox) * O;
#pragma unroll 2
    for (unsigned i = lane; i < STRIP * OF_ROW; i += 32) {
        const unsigned r = i / OF_ROW, rest = i - r * OF_ROW;
        if (OUT_H % STRIP && item.oy + (int)r >= OUT_H) continue;
        const int place = at + r * (OUT_W * O) + rest * 16;
        uint4 four = *(const uint4*)(here + r * (16 * O) + rest * 16);
        if (RESIDUAL) {
            const uint4 more = __ldg((const uint4*)(residual + place));
            constexpr bool FULL = SMALL_PROJECT >= 2;
            four = make_uint4(add_words<FULL>(four.x, more.x, output), add_words<FULL>(four.y, more.y, output),
                              add_words<FULL>(four.z, more.z, output), add_words<FULL>(four.w, more.w, output));
        }
        *(uint4*)(y + place) = four;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    alone_int8(const signed char* __restrict__ x, const uint4* __restrict__ weights,
               const signed char* __restrict__ residual, signed char* __restrict__ y, int N, int hidden_zero,
               int zero_point, int low, int high, float scale_a, float scale_b, float shift, int offset) {
    extern __shared__ uint4 shared[];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
    const float* const ends = (const float*)(shared + Y_ENDS + O / 2);
    signed char* const mine = (signed char*)(shared + ALL) + warp * (BUFFERS * X);
    const unsigned zeros = (hidden_zero & 255) * 0x01010101u;
    const int all = N * ITEMS, step = gridDim.x * WARPS;
    int index = blockIdx.x * WARPS + warp;
    for (int i = threadIdx.x; i < ALL; i += THREADS) cp_async_16(shared + i, weights + i);
    cp_async_commit();

    if (C % 16)  // bytes that nobody brings are multiplied by 0
        for (int i = lane; i < BUFFERS * X / 16; i += 32) ((uint4*)mine)[i] = make_uint4(0, 0, 0, 0);
    __syncwarp();
    wait_for_inputs();  // until here nothing depends on the kernel before
    if (index < all) fetch(x, index, mine, lane);
    cp_async_commit();
    launch_dependents();
    cp_async_wait<1>();
    __syncthreads();  // the weights are there
    for (int turn = 0; index < all; index += step, turn ^= 1) {
        signed char* const x_here = mine + turn * X;
        const Item item(index);
        cp_async_wait<0>();
        __syncwarp();
        if (index + step < all) fetch(x, index + step, mine + (turn ^ 1) * X, lane);
        cp_async_commit();
        const Place place(item, g);
        int sums[STRIP][EIGHTS][4];
#pragma unroll
        for (int n = 0; n < EIGHTS; ++n)
#pragma unroll
            for (int r = 0; r < STRIP; ++r) begin_at(sums[r][n], shared + Y_ENDS + 4 * n + t);
        Rows rows = {x_here};
        Expanding w;
        rows.load(0, lane), w.get(shared, place, lane);
        rows.expand(0, w), rows.load(1, lane);
#pragma unroll 1
        for (int plane = 0; plane < PLANES; ++plane) {
            const uint4* const here = shared + plane * PLANE;
            const uint4* const next = plane + 1 < PLANES ? here + PLANE : shared;
            if (ONE_STEP || in_one_step(here)) add_plane<false>(sums, rows, w, here, next, place, zeros, lane);
            else add_plane<true>(sums, rows, w, here, next, place, zeros, lane);
        }
        __syncwarp();  // nobody reads x any more
        put_sums(x_here, sums, ends, g, t);
        __syncwarp();
        copy_out(y, residual, item, x_here, {zero_point, low, high, scale_a, scale_b, shift, offset}, lane);
    }
}
