// bands_int8 - MobileNetV2's block in int8, whose hidden pixels stay in the registers of the lanes that convolve them.
// requires: sm_90
//
//   x (N, H, W, C), residual and y (N, OUT_H, OUT_W, O): NHWC. weights: see blocks_int8.py, Slid.bands. The bits are
//   those of inverted_residual_int8. Compiled for sm_90a.
//
//   A row of a product is a pixel of a band: 7 columns of outputs, and the 9 of hidden pixels around them (15 at stride
//   2). A lane has all that its bands need, and asks no other one. The 16 rows are the bands of a row of an image, and
//   of as many more strips as there is room for, STRIP rows of outputs each.
//
//     x ──expand──► 2 rows of 9 × 16 hidden ──depthwise──► 7 outputs × 16 ──shared──► project ──► y
//     shared  mma   registers                  mma         codes               all channels  mma
//
//   A warp that expands keeps 16 hidden channels and their weights. It goes down a strip by two rows of hidden pixels
//   at a time, which stay in registers for the next two. Other warps project: what a row has of all channels comes to
//   them through shared memory; and they bring the rows of x. Mbarriers say that codes are there, and that x is. x of
//   step o + 3 comes after the codes of step o have been read, so nothing else need say when these may be overwritten.
//
//   Two rows, one above the other, are an operand of 32 columns; one row is one of 16. A register has two neighbouring
//   pixels of two channels. With rows a, b from the step before, and c, d of this one:
//
//                        stride 1                                      stride 2
//     outputs            of row b: ab, c    of row c: b, cd            of row c: b, cd
//     pixels 2i, 2i + 1  taps 0, 1 of output 2i, tap 0 of 2i + 1       taps 0, 1 of output i
//     and the next two   tap 2 of output 2i, taps 1, 2 of 2i + 1       tap 2
//
//   Three taps of a row as one operand, as in alone_int8.cu, share registers with their neighbours' operands. Then a
//   compiler copies many of them for each row of outputs, and this kernel was slower so on an H200.
#include "block_int8.h"
#include "bulk.h"

constexpr int C = CHANNELS, O = OUTPUTS, H = HEIGHT, W = WIDTH, ST = STRIDE;
constexpr int OUT_H = H / ST, OUT_W = W / ST, COLUMNS = 7, ACROSS = OUT_W / COLUMNS;  // bands side by side
constexpr int SUBS = 16 / ACROSS, STRIPS = OUT_H / STRIP;  // strips that a product's rows have; those of an image
// a set: the warps that take the same strips; of these PLANES expand, and PW project
constexpr int SETS = IMAGES / SUBS, PLANES = HIDDEN / 16, EXPANDERS = PLANES * SETS, PROJECTORS = WARPS - EXPANDERS;
constexpr int PW = PROJECTORS / SETS, THREADS = 32 * WARPS;
// rows of outputs of a step; steps; pairs of rows of x that are on their way or needed
constexpr int ROWS = 3 - ST, STEPS = STRIP / ROWS, RING = 8;
constexpr int EIGHTS = O / 8, PAIRS = ceil_div(O, 16), TILES = ROWS * COLUMNS;  // of 16 outputs
constexpr bool HALF_STEP = C % 32 > 0 && C % 32 <= 16, BY_PAIRS = C <= 16;  // half a product; of two pixels at once
constexpr int DEEP = ceil_div(C, 32), PX = COLUMNS * ST + 3 - ST, WORDS_OF_ROW = ceil_div(PX, 2);
// 16 bytes that a pixel, a band, a strip's row, and two rows of all strips take in shared memory. Eight rows of a
// product lie in all banks
constexpr int PIXEL = ceil_div(C, 16) | (ST == 1), BAND = PIXEL * COLUMNS * ST | 1;
constexpr int SUB_0 = ACROSS * BAND + 2 * PIXEL, SUB_REST = SUBS <= 2 ? 0 : SUBS == 4 ? 4 : 2;
constexpr int SUB = SUB_0 + (SUB_REST + 8 - SUB_0 % 8) % 8, UNIT = 2 * SUBS * SUB, X = RING * UNIT;
constexpr int DW_ROW = HIDDEN / 16 | 1, DW = TILES * 16 * DW_ROW;  // of a set: [2][DW]
constexpr int SET = X + 2 * DW;
constexpr int BARS = 2 + RING;  // of a set
// words of a lane of a plane: expand, taps [variant][half][ky][2]; ends as of alone_int8.cu
constexpr int VARIANTS = ROWS, TAPS_0 = 4 * DEEP - 2 * HALF_STEP, WORDS = ceil_to(TAPS_0 + 12 * VARIANTS, 4);
constexpr int PLANE = 8 * WORDS + 40, PROJECT_0 = PLANES * PLANE;
// project: [step][eight][lane][2] words, then its ends
constexpr int K_STEPS = ceil_div(HIDDEN, 32), Y_ENDS = 16 * K_STEPS * EIGHTS, PROJECT = Y_ENDS + O / 2 + O / 2;
// registers of a lane that expands, and of one that projects, where all alike have too few
constexpr bool SPLIT_REGISTERS = WARPS == 16 && EXPANDERS == 12;
constexpr int UP = 144, DOWN = 80, TOGETHER = SPLIT_REGISTERS && ROWS == 1 ? 1 : 2;  // tiles that a warp projects
constexpr unsigned ALL = 0xffffffffu;
static_assert(W % (ST * COLUMNS) == 0 && 16 % ACROSS == 0 && H % (ST * STRIP) == 0 && STRIP % ROWS == 0, "sizes");
static_assert(HIDDEN % 16 == 0 && O % 8 == 0 && C % 8 == 0, "channels");
static_assert(EXPANDERS < WARPS && PROJECTORS % SETS == 0 && IMAGES % SUBS == 0, "warps");

__device__ __forceinline__ void begin_at(int (&d)[4], const uint4* from) {
    const uint4 four = __ldg(from);
    d[0] = (int)four.x, d[1] = (int)four.y, d[2] = (int)four.z, d[3] = (int)four.w;
}
// Where a strip is: its image and first row of outputs.
struct Strip {
    int image, row;
    __device__ __forceinline__ explicit Strip(int index) {
        image = (unsigned)index / STRIPS, row = (index - image * STRIPS) * STRIP;
    }
};

// ---- Warps that expand

struct Weights {  // of 16 hidden channels
    unsigned expand[ceil_to(TAPS_0, 4)];
    unsigned alone[2][VARIANTS][2][2];    // taps of the row above, of the one below: [][variant][half][side]
    unsigned both[2][VARIANTS][2][2][2];  // of that and the middle one, the upper one first: [][…][side][row]
    int begin[2][4], dw_begin[2][4];
    End of_hidden[2], of_dw[2];
    const uint4* ends;

    __device__ __forceinline__ Weights(const uint4* plane, int lane) {
        unsigned words[WORDS];
        words_of(words, plane, lane);
#pragma unroll
        for (int i = 0; i < TAPS_0; ++i) expand[i] = words[i];
#pragma unroll
        for (int i = 0; i < 4 * VARIANTS; ++i) {
            const int v = i / 4, half = i % 4 / 2, side = i % 2;
            const unsigned* const taps = words + TAPS_0 + 12 * v + 6 * half + side;
            alone[0][v][half][side] = taps[0], alone[1][v][half][side] = taps[4];
            both[0][v][half][side][0] = taps[0], both[0][v][half][side][1] = taps[2];
            // (here: else a compiler would copy them for each product)
            both[1][v][half][side][0] = ROWS == 2 ? here(taps[2]) : taps[2], both[1][v][half][side][1] = taps[4];
        }
        ends = plane + 8 * WORDS;
        const int t = lane % 4;
        for (int half = 0; half < 2; ++half)
            begin_at(begin[half], ends + 4 * half + t), begin_at(dw_begin[half], ends + 16 + 4 * half + t);
        ends_of(of_hidden, __ldg(ends + 8 + t), __ldg(ends + 12 + t));
        ends_of(of_dw, __ldg(ends + 24 + t), __ldg(ends + 28 + t));
    }
};
__device__ __forceinline__ constexpr int place_of(int j) { return ST == 2 && j == PX - 1 ? BAND : j * PIXEL; }

struct Places {  // of a lane of a warp that expands
    const uint4* x;  // its pixel 0 of the first row in the ring
    char* dw;        // its word of output 0 in the first half of the codes
    Mbarrier* bars;  // two of codes, RING of x
    // of bands g and g + 8: hidden row 0 in the image; whether the band is an image's first or last one
    int row[2];
    bool first[2], last[2];
    unsigned zeros;
};

template <bool EXACT> struct Expanding {
    // Two rows of hidden pixels: neighbours in pairs, of eight channels; bands g and g + 8 of the upper row, the lower
    struct Pair {
        unsigned of[WORDS_OF_ROW][2][4];
    };
    const Weights& w;
    const Places& at;
    int lane;
    Pair pairs[2];

    // Sums of pixels 2i and 2i + 1 of a row. from: this lane's place of pixel 0 in x.
    __device__ __forceinline__ void expand(int (&d)[2][2][4], int i, const uint4* from,
                                           const int (&begins)[2][4]) const {
        const bool two = 2 * i + 1 < PX;
#pragma unroll
        for (int k = 0; k < DEEP; ++k) {
            if (HALF_STEP && k == DEEP - 1) {
                unsigned a[2][2];
                if (BY_PAIRS && two) {  // lanes 16 … 31 give the second pixel's places
                    unsigned four[4];
                    ldmatrix_x4(four, from + place_of(2 * i));
                    a[0][0] = four[0], a[0][1] = four[1], a[1][0] = four[2], a[1][1] = four[3];
                } else
                    for (int j = 0; j < 1 + two; ++j) ldmatrix_x2(a[j], from + place_of(2 * i + j) + 2 * k);
#pragma unroll
                for (int j = 0; j < 1 + two; ++j)
#pragma unroll
                    for (int h = 0; h < 2; ++h)
                        if (k == 0) mma_bytes_k16<false>(d[j][h], a[j], w.expand[4 * k + h], begins[h]);
                        else mma_bytes_k16<false>(d[j][h], a[j], w.expand[4 * k + h]);
            } else
#pragma unroll
                for (int j = 0; j < 1 + two; ++j) {
                    unsigned a[4];
                    ldmatrix_x4(a, from + place_of(2 * i + j) + 2 * k);
#pragma unroll
                    for (int h = 0; h < 2; ++h) {
                        const unsigned b[2] = {w.expand[4 * k + 2 * h], w.expand[4 * k + 2 * h + 1]};
                        if (k == 0) mma_s8(d[j][h], a, b, begins[h]);
                        else mma_s8(d[j][h], a, b);
                    }
                }
        }
    }
    // Word i of row r of a pair. outside: of bands g and g + 8, whether the row is below the image.
    __device__ __forceinline__ void word(Pair& pair, int r, int i, const uint4* from, const int (&begins)[2][4],
                                         const bool (&outside)[2]) const {
        int d[2][2][4];
        expand(d, i, from, begins);
        const bool alone = 2 * i + 1 >= PX;
#pragma unroll
        for (int h = 0; h < 2; ++h)
#pragma unroll
            for (int b = 0; b < 2; ++b) {
                const End& end = w.of_hidden[h];
                const int *const one = d[0][h] + 2 * b, *const other = d[1][h] + 2 * b;
                unsigned four = alone ? pack_unsigned(code_of<EXACT, ODD>(one[0], end.multiplier[0], end.offset[0]),
                                                      code_of<EXACT, ODD>(one[1], end.multiplier[1], end.offset[1]))
                                      : codes<EXACT>(one[0], one[1], other[0], other[1], end, end);
                if (i == 0 && at.first[b]) four = __byte_perm(four, at.zeros, 0x3254);
                if (ST == 1 && alone && at.last[b]) four = at.zeros;
                if (outside[b]) four = at.zeros;
                pair.of[i][h][2 * r + b] = four;
            }
    }
    // Outputs 2i and 2i + 1 of ROWS rows, at stride 2 output i of one, to shared memory.
    __device__ __forceinline__ void convolve(const Pair& before, const Pair& now, int i, char* to) const {
#pragma unroll
        for (int v = 0; v < VARIANTS; ++v)
#pragma unroll
            for (int row = 0; row < ROWS; ++row) {
                const int j = ST == 1 ? 2 * i + v : i;
                if (j >= COLUMNS) continue;
                int acc[2][4];
                const bool below = row == ROWS - 1;  // whether both rows of `now` are needed
#pragma unroll
                for (int side = 0; side < 2; ++side)
#pragma unroll
                    for (int h = 0; h < 2; ++h) {
                        const unsigned(&a)[4] = before.of[i + side][h], lower[2] = {a[2], a[3]};
                        if (side == 0)
                            for (int e = 0; e < 4; ++e) acc[h][e] = w.dw_begin[h][e];
                        if (below) mma_bytes_k16<true>(acc[h], lower, w.alone[0][v][h][side]);
                        else mma_bytes<true>(acc[h], a, w.both[0][v][h][side]);
                    }
#pragma unroll
                for (int side = 0; side < 2; ++side)
#pragma unroll
                    for (int h = 0; h < 2; ++h) {
                        const unsigned(&a)[4] = now.of[i + side][h], upper[2] = {a[0], a[1]};
                        if (below) mma_bytes<true>(acc[h], a, w.both[1][v][h][side]);
                        else mma_bytes_k16<true>(acc[h], upper, w.alone[1][v][h][side]);
                    }
#pragma unroll
                for (int b = 0; b < 2; ++b)
                    *(unsigned*)(to + ((row * COLUMNS + j) * 16 + 8 * b) * DW_ROW * 16) =
                        codes<EXACT>(acc[0][2 * b], acc[0][2 * b + 1], acc[1][2 * b], acc[1][2 * b + 1], w.of_dw[0],
                                     w.of_dw[1]);
            }
    }
    __device__ __forceinline__ const uint4* x_of(int s) const {
        at.bars[2 + s % RING].wait(s / RING % 2);
        return at.x + s % RING * UNIT;
    }
    // The rows above the first ones: at stride 1 two, of which the upper one may be above the image, at stride 2 that.
    __device__ __forceinline__ void first() {
        int beside[2][4];
#pragma unroll
        for (int h = 0; h < 2; ++h)
#pragma unroll
            for (int b = 0; b < 2; ++b) {
                const bool inside = at.row[b] + ST - 1 >= 0;
                const int2 two = __ldg((const int2*)(w.ends + (inside ? 0 : 32) + 4 * h + lane % 4));
                beside[h][2 * b] = two.x, beside[h][2 * b + 1] = two.y;
            }
        const uint4* const from = x_of(0);
#pragma unroll
        for (int i = 0; i < WORDS_OF_ROW; ++i) {
            word(pairs[0], ST - 1, i, from + (ST - 1) * SUBS * SUB, beside, {false, false});
            if (ST == 1) word(pairs[0], 1, i, from + SUBS * SUB, w.begin, {false, false});
        }
    }
    template <int I> __device__ __forceinline__ void step(int s) {
        const uint4* const from = x_of(s);
        char* const to = at.dw + (s + 1) % 2 * (DW * 16);
        const bool outside[2] = {ST == 1 && at.row[0] + 2 * s + 1 >= H, ST == 1 && at.row[1] + 2 * s + 1 >= H};
#pragma unroll
        for (int i = 0; i < WORDS_OF_ROW; ++i) {
            word(pairs[I], 0, i, from, w.begin, {false, false});
            word(pairs[I], 1, i, from + SUBS * SUB, w.begin, outside);
            if (i > 0) convolve(pairs[1 - I], pairs[I], i - 1, to);
        }
        at.bars[(s + 1) % 2].arrive();
    }
    __device__ __forceinline__ void all() {
        first();
#pragma unroll 1
        for (int s = 1; s <= STEPS; s += 2) {
            step<1>(s);
            if (s + 1 > STEPS) break;
            step<0>(s + 1);
        }
    }
};

// ---- Warps that project, and bring x

// The rows of x on their way to shared memory.
struct Stream {
    static constexpr int PIECE = C % 16 ? 8 : 16, PIECES = C / PIECE, ROW = W * PIECES, TURNS = ceil_div(ROW, 32 * PW);
    const signed char* x;
    char* ring;
    int from[SUBS], row[SUBS];  // of the strips: x of its hidden row 0, which is that row of the image
    int to[TURNS];              // where this thread's pieces go; how many it has
    int thread;

    __device__ __forceinline__ Stream(const signed char* x, uint4* ring, int first_strip, int N, int thread)
        : x(x), ring((char*)ring), thread(thread) {
        constexpr unsigned BAND_PX = COLUMNS * ST;
#pragma unroll
        for (int i = 0; i < SUBS; ++i) {
            const Strip strip(first_strip + i);
            row[i] = strip.image < N ? (strip.row - 1) * ST : H + 2;
            from[i] = (strip.image * H + (strip.row - 1) * ST) * (W * C);
        }
#pragma unroll
        for (int i = 0; i < TURNS; ++i) {
            const unsigned at = thread + i * 32 * PW, p = at / PIECES + 1;
            to[i] = (p / BAND_PX * BAND + p % BAND_PX * PIXEL) * 16 + at % PIECES * PIECE;
        }
    }
    // The two rows of each strip that are step u's.
    __device__ __forceinline__ void bring(int u) const {
        const int y = 2 * u;
        char* const slot = ring + u % RING * (UNIT * 16);
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
            for (int i = 0; i < SUBS; ++i) {
                const bool inside = (unsigned)(row[i] + y + r) < H && u <= STEPS;
                const signed char* const source = inside ? x + from[i] + (y + r) * (W * C) + thread * PIECE : x;
#pragma unroll
                for (int k = 0; k < TURNS; ++k) {
                    if (thread + k * 32 * PW >= ROW) continue;
                    char* const there = slot + to[k] + (r * SUBS + i) * (SUB * 16);
                    const signed char* const here = source + (inside ? k * 32 * PW * PIECE : 0);
                    if (PIECE == 16) cp_async_16(there, here, inside);
                    else cp_async_8(there, here, inside);
                }
            }
        cp_async_commit();
    }
};

struct Outputs {  // of a warp that projects
    const uint4* weights;  // in shared memory
    const float* ends;
    const signed char* residual;
    signed char* y;
    bool is_there[2];  // bands g and g + 8
    int place[2], lane;

    // COUNT tiles of 16 outputs of step o: `first`, and every PW-th one. dw: this lane's row of the first one's codes.
    template <int COUNT>
    __device__ __forceinline__ void project(int o, int first, const uint4* dw, const Output& to) const {
        const int t = lane % 4;
        int at[COUNT];  // in y
#pragma unroll
        for (int m = 0; m < COUNT; ++m) {
            const int tile = first + m * PW, row = ROWS == 2 && tile >= COLUMNS;
            at[m] = ((o * ROWS + row) * OUT_W + tile - row * COLUMNS) * O;
        }
        unsigned more[COUNT][2][PAIRS];
        int sums[COUNT][EIGHTS][4];
#pragma unroll
        for (int m = 0; m < COUNT; ++m)
#pragma unroll
            for (int b = 0; RESIDUAL && b < 2; ++b)
#pragma unroll
                for (int pair = 0; pair < PAIRS; ++pair) {
                    const signed char* const there = residual + place[b] + at[m] + first_output(pair, t);
                    more[m][b][pair] = 0;
                    if (is_there[b])
                        more[m][b][pair] =
                            16 * pair + 8 < O ? __ldg((const unsigned*)there) : __ldg((const unsigned short*)there);
                }
#pragma unroll
        for (int n = 0; n < EIGHTS; ++n) {
            const uint4 four = weights[Y_ENDS + 4 * n + t];
#pragma unroll
            for (int m = 0; m < COUNT; ++m)
                sums[m][n][0] = (int)four.x, sums[m][n][1] = (int)four.y, sums[m][n][2] = (int)four.z,
                sums[m][n][3] = (int)four.w;
        }
#pragma unroll
        for (int k = 0; k < K_STEPS; ++k) {
            const bool rest = HIDDEN % 32 && k == K_STEPS - 1;
            unsigned a[COUNT][4];
#pragma unroll
            for (int m = 0; m < COUNT; ++m) {
                const uint4* const from = dw + m * PW * 16 * DW_ROW + 2 * k;
                if (rest) {
                    unsigned two[2];
                    ldmatrix_x2(two, from);
                    a[m][0] = two[0], a[m][1] = two[1];
                } else ldmatrix_x4(a[m], from);
            }
#pragma unroll
            for (int n = 0; n < EIGHTS; ++n) {
                const uint2 b = *((const uint2*)weights + (k * EIGHTS + n) * 32 + lane);
#pragma unroll
                for (int m = 0; m < COUNT; ++m)
                    if (rest) mma_bytes_k16<true>(sums[m][n], {a[m][0], a[m][1]}, b.x);
                    else mma_bytes<true>(sums[m][n], a[m], {b.x, b.y});
            }
        }
#pragma unroll
        for (int pair = 0; pair < PAIRS; ++pair) {
            constexpr int LAST = EIGHTS - 1;
            const int one_eight = 2 * pair, other = one_eight < LAST ? one_eight + 1 : one_eight;
            const bool one = ONE_STEP || ends[16 * pair] < 1;
#pragma unroll
            for (int m = 0; m < COUNT; ++m)
#pragma unroll
                for (int b = 0; b < 2; ++b) {
                    unsigned four = one ? codes_of_y<false>(ends, pair, t, sums[m][one_eight], sums[m][other], b)
                                        : codes_of_y<true>(ends, pair, t, sums[m][one_eight], sums[m][other], b);
                    constexpr bool FULL = SMALL_PROJECT >= 2;
                    if (RESIDUAL && one_eight < LAST) four = add_words<FULL>(four, more[m][b][pair], to);
                    else if (RESIDUAL) four = add_words<FULL, 2>(four, more[m][b][pair], to);
                    if (!is_there[b]) continue;
                    signed char* const here = y + place[b] + at[m] + first_output(pair, t);
                    if (one_eight < LAST) *(unsigned*)here = four;
                    else *(unsigned short*)here = (unsigned short)four;
                }
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    bands_int8(const signed char* __restrict__ x, const uint4* __restrict__ weights,
               const signed char* __restrict__ residual, signed char* __restrict__ y, int N, int hidden_zeros,
               int zero_point, int low, int high, float scale_a, float scale_b, float shift, int offset) {
    extern __shared__ uint4 shared[];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = __shfl_sync(ALL, threadIdx.x / 32, 0);
    const bool expands = warp < EXPANDERS;
    const int set = expands ? warp / PLANES : (warp - EXPANDERS) / PW;
    uint4* const x_here = shared + set * SET;
    uint4* const dw = x_here + X;
    uint4* const project = shared + SETS * SET;
    Mbarrier* const all_bars = (Mbarrier*)(project + PROJECT);
    Mbarrier *const full = all_bars + set * BARS, *const arrived = full + 2;
    const int first_strip = (blockIdx.x * SETS + set) * SUBS;

    if (threadIdx.x == 0) {
        // all lanes arrive: racecheck takes an arrival for that lane's accesses only, and it takes no longer
        for (int i = 0; i < SETS * BARS; ++i) all_bars[i].init(32 * (i % BARS < 2 ? PLANES : PW));
        mbarriers_ready();
    }
    // pixels beside the image, and bytes that nobody brings: they are multiplied by 0, or masked
    for (int i = threadIdx.x; i < SETS * X; i += THREADS) shared[i / X * SET + i % X] = make_uint4(0, 0, 0, 0);
    for (int i = threadIdx.x; i < PROJECT; i += THREADS) project[i] = __ldg(weights + PROJECT_0 + i);
    __syncthreads();

    if (expands) {
        if (SPLIT_REGISTERS) registers_up<UP>();
        const Weights w(weights + warp % PLANES * PLANE, lane);
        Places at;
        const int row = lane % 16, half = lane / 16;  // of a product, whose address this lane gives
        at.x = x_here + row / ACROSS * SUB + row % ACROSS * BAND + half * (BY_PAIRS ? PIXEL : 1);
        at.dw = (char*)(dw + g * DW_ROW + warp % PLANES) + 4 * t;
        at.bars = full;
        for (int b = 0; b < 2; ++b) {
            const int band = (g + 8 * b) % ACROSS;
            at.row[b] = (Strip(first_strip + (g + 8 * b) / ACROSS).row - 1) * ST;
            at.first[b] = band == 0, at.last[b] = band == ACROSS - 1;
        }
        at.zeros = hidden_zeros;
        if (ONE_STEP || __uint_as_float(__ldg(w.ends + 8).x) < 1) Expanding<false>{w, at, lane}.all();
        else Expanding<true>{w, at, lane}.all();
    } else {
        if (SPLIT_REGISTERS) registers_down<DOWN>();
        const int projector = (warp - EXPANDERS) % PW;
        const Output to = {zero_point, low, high, scale_a, scale_b, shift, offset};
        constexpr int PENDING = RING - 4;
        Outputs outputs = {project, (const float*)(project + Y_ENDS + O / 2), residual, y};
        outputs.lane = lane;
#pragma unroll
        for (int b = 0; b < 2; ++b) {
            const Strip strip(first_strip + (g + 8 * b) / ACROSS);
            outputs.is_there[b] = strip.image < N;
            outputs.place[b] = ((strip.image * OUT_H + strip.row) * OUT_W + (g + 8 * b) % ACROSS * COLUMNS) * O;
        }
        const Stream stream(x, x_here, first_strip, N, projector * 32 + lane);
        wait_for_inputs();
        for (int u = 0; u < RING - 1; ++u) stream.bring(u);
        launch_dependents();
        cp_async_wait<PENDING>();
        for (int u = 0; u < 3; ++u) arrived[u].arrive();
#pragma unroll 1
        for (int o = 0; o < STEPS; ++o) {
            const uint4* const codes = dw + o % 2 * DW + lane % 16 * DW_ROW + lane / 16;
            full[o % 2].wait(o / 2 % 2);
            stream.bring(o + RING - 1);
#pragma unroll 1
            for (int tile = projector; tile < TILES; tile += TOGETHER * PW)
                if (tile + (TOGETHER - 1) * PW < TILES)
                    outputs.project<TOGETHER>(o, tile, codes + tile * 16 * DW_ROW, to);
                else outputs.project<1>(o, tile, codes + tile * 16 * DW_ROW, to);
            cp_async_wait<PENDING>();
            arrived[(o + 3) % RING].arrive();
        }
        cp_async_wait<0>();
    }
}
