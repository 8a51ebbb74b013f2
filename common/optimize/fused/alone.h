// alone.h - a whole inverted-residual block by single warps: no warp waits for another one. Halves.
//
//   Alone<S> block(shared, fragments, bounds);      S: a struct of numbers, which generate.py writes
//   block.run(x, y, N);                             a warp, or PARTS warps, take one item after the other
//
// A warp takes 14 columns of outputs, STRIP rows of them: an item. Of each row of hidden pixels it expands 16 channels,
// convolves and projects them, and what one step makes is in registers already as the next one needs it:
//
//     16 pixels of x × C  ──expand──►  16 pixels × 16 hidden  ──depthwise──►  16 outputs × 16  ──project──►  sums
//     shared, ldmatrix        mma      registers, shuffles        mma         registers          mma        registers
//
// What a warp holds: the sums of all its outputs, STRIP · 16 pixels × O. What it reads anew for 16 channels: x, and
// their weights. The host has put these in order (fragments.py), so that a lane reads what it needs 16 bytes at a time.
// Compared with block.h: no barrier, dw is never stored, and project's operands are read once a strip.
//
// Where weights STREAM, they are not all in shared memory: a warp has room for 16 hidden channels of them, and asks for
// the next ones when it has read these to its registers.
//
// Where there are fewer items than warps, PARTS warps share one: each takes every PARTS-th 16 hidden channels, and at
// the end they add up their sums in shared memory. All threads of a block then meet, three times an item.
//
//     hidden pixels        0 │ 1  2  …  13  14 │ 15      rows 0 … 7 of a product are the even ones, rows 8 … 15 the
//     outputs, stride 1      │ 0  1  …  12  13 │         odd ones: a lane's two pixels are neighbours (sliding.h)
//     outputs, stride 2: of output o hidden pixels 2o, 2o + 1 and 2o + 2; the even and the odd ones are two products,
//                        and the third is the first of the next output
//
// A tap is a product with a diagonal matrix (diagonal.h). Two of the three taps in a row lie side by side in a product;
// the third ones of two rows do so as well; the third one of the last row is half a product. Which of a row is that
// third one is chosen so that few registers must be copied: at stride 1 a lane's pixels e and o are
//
//     under taps 0, 1, 2 of its two outputs:  (left, e)  (e, o)  (o, right)   the third one is tap 1: left, e, o, right
//                                                                             are a product's operand as they are
//
// So two registers a product are copied: by an AND with bits of which no compiler knows that all are ones. Moves it may
// repeat before each product that reads a copy, and it does.
//
// A stem takes all its 32 hidden channels at once: no sums wait, and the strip may be as high as the image. Its rows of
// pixels come one pair after the other into a ring. Under a row of taps 9 numbers lie side by side, one before them.
#pragma once
#include "fused/items.h"

template <class S> struct AloneSizes : AloneItems<S, S::C / 8> {
    using I = AloneItems<S, S::C / 8>;
    static constexpr int ST = I::ST, C = I::C, O = I::O, PARTS = I::PARTS, ROWS = I::ROWS, PX = I::PX;
    static constexpr int PLANES = I::PLANES, NO = I::NO;
    static constexpr bool STEM = S::STEM, STREAMS = S::STREAMS;

    // x of an item, in shared memory: rows of PX pixels
    static constexpr int X_ROW = PX * C, X = STEM ? 0 : ROWS * X_ROW;  // halves

    // words of a lane for 16 channels, as in fragments.py
    static constexpr int K_STEPS = STEM ? 2 : ceil_div(C, 16);
    static constexpr int BIAS_0 = 4 * K_STEPS, TAPS_0 = BIAS_0 + (STEM ? 0 : 8), DW_BIAS_0 = TAPS_0 + 24;
    static constexpr int PROJECT_0 = DW_BIAS_0 + 8, WORDS = ceil_div(PROJECT_0 + 2 * NO, 4) * 4;
    // where weights stream, a plane is fragments of both products, then its biases and taps once; each warp has room
    // for one of its planes
    static constexpr int PRODUCTS = 4 * K_STEPS + 2 * NO, FOURS = ceil_div(PRODUCTS, 4), TABLE = 128;
    static constexpr int PLANE = FOURS * 128 + TABLE;
    static constexpr int FRAGMENTS = STREAMS ? I::WARPS * PLANE : PLANES * WORDS * 32;
    static constexpr int ALL_WORDS = FRAGMENTS + ceil_div(O, 4) * 4;

    // of a stem's ring, in words: a row is 8 bytes of each lane, of which 26 bring what is needed
    static constexpr int ROW = 66, PAIR = 2 * ROW, PAIRS = 8, RING = PAIRS * PAIR, STAGED = 128, CONSTANTS = 4;
    static constexpr int OF_SLOT = STEM ? 2 * (RING + STAGED + CONSTANTS) : S::BUFFERS * X;  // halves
    static_assert(STEM || C % 8 == 0, "channels");
    static_assert(!STEM || (PARTS == 1 && !STREAMS), "parts");
    static_assert(STEM || X >= S::STRIP * 16 * O, "y is put where x was");
    static_assert(!STEM || (PLANES == 2 && O == 16 && ROWS % 6 == 0), "stem");
};

// The depthwise convolution of 8·NB channels, a row of hidden pixels after the other: `put` and then `add` of its rows
// of taps ky, 2 first. Between two of them the sums of an output row that is over may be read. Outputs are OUT rows.
template <int ST, int NB, int OUT> struct AloneDepthwise {
    float acc[3][NB][4];        // of outputs, by their row % 3
    unsigned two[NB][4];        // of the row that was put: under two taps
    unsigned thirds[NB][2][2];  // under the third one, of an even and of an odd row

    // d: a row's sums, [the even pixels, the odd ones at stride 2][eight of channels], to be clamped from 0 to `bound`.
    // every: all bits.
    template <int Y>
    __device__ __forceinline__ void put(const float (&d)[ST][NB][4], const unsigned (&bound)[ST][2], int lane,
                                        unsigned every) {
#pragma unroll
        for (int h = 0; h < NB; ++h) {
            unsigned v[ST][2];
#pragma unroll
            for (int i = 0; i < ST * 2; ++i)
                v[i / 2][i % 2] =
                    min_halves(pack_relu(d[i / 2][h][i % 2 * 2], d[i / 2][h][i % 2 * 2 + 1]), bound[i / 2][i % 2]);
            const unsigned right = right_of(v[0][0], lane);
            unsigned(&third)[2] = thirds[h][Y % 2];
            if (ST == 1) {
                two[h][0] = left_of(v[0][1], lane), two[h][1] = v[0][0], two[h][2] = v[0][1], two[h][3] = right;
                third[0] = v[0][0] & every, third[1] = v[0][1] & every;  // copies, made once
            } else {
                two[h][0] = v[0][0], two[h][1] = v[0][1], two[h][2] = v[ST - 1][0], two[h][3] = v[ST - 1][1];
                third[0] = v[0][1] & every, third[1] = right;
            }
        }
    }
    // Whether an output lies under row ky of taps at row Y: a compiler keeps products of which nobody reads the sums.
    __host__ __device__ static constexpr bool is_needed(int y, int ky) {
        return y >= ky && (y - ky) % ST == 0 && (y - ky) / ST < OUT;
    }
    // Of row Y, under two taps of row ky of taps.
    template <int Y>
    __device__ __forceinline__ void add(int ky, const unsigned (&taps)[NB][12], const float (&bias)[NB][4]) {
        if (is_needed(Y, ky))
#pragma unroll
            for (int h = 0; h < NB; ++h) {
                float(&sum)[4] = acc[(Y - ky) / ST % 3][h];
                if (ky == 0) mma_f16(sum, two[h], {taps[h][0], taps[h][1]}, bias[h]);
                else mma_f16(sum, two[h], {taps[h][2 * ky], taps[h][2 * ky + 1]});
            }
    }
    // Of row Y and the one before, under the third ones.
    template <int Y> __device__ __forceinline__ void add_thirds(const unsigned (&taps)[NB][12]) {
#pragma unroll
        for (int ky = 2; ky >= 1; --ky)
            if (is_needed(Y, ky))
#pragma unroll
                for (int h = 0; h < NB; ++h) {
                    float(&sum)[4] = acc[(Y - ky) / ST % 3][h];
                    const unsigned(&of)[12] = taps[h];
                    const unsigned(&t)[2][2] = thirds[h];
                    if (ky == 2) mma_f16_k8(sum, {t[Y % 2][0], t[Y % 2][1]}, of[8]);
                    else mma_f16(sum, {t[0][0], t[0][1], t[1][0], t[1][1]}, {of[Y % 2 ? 6 : 10], of[Y % 2 ? 7 : 11]});
                }
    }
};

template <class S> struct Alone {
    using G = AloneSizes<S>;
    using Item = typename G::Item;
    static constexpr int ST = G::ST, C = G::C, O = G::O, NO = G::NO;

    const uint4 *fragments, *from;  // from: in global memory
    const float* bias;
    __half* mine;  // of this warp's item
    float4* sums_of_slot;
    AloneBounds w;
    int lane, g, t, warp, slot, part;
    unsigned every;  // all bits, which no compiler knows

    __device__ __forceinline__ Alone(void* shared, const uint4* from, const AloneBounds& w) : from(from), w(w) {
        lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
        slot = warp / G::PARTS, part = warp % G::PARTS;
        fragments = (const uint4*)shared, bias = (const float*)shared + G::FRAGMENTS;
        __half* const items = (__half*)((unsigned*)shared + G::ALL_WORDS);
        mine = items + slot * G::OF_SLOT;
        sums_of_slot = (float4*)(items + G::SLOTS * G::OF_SLOT) + slot * (G::PARTS * G::SUMS) + lane;
        if constexpr (G::STREAMS) {
            const uint4* const last = from + G::PLANES * (G::PLANE / 4);
            for (int i = threadIdx.x; i < ceil_div(O, 4); i += S::THREADS) cp_async_16((uint4*)bias + i, last + i);
            fragments += warp * (G::PLANE / 4);
            bring(part);
        } else {
            for (int i = threadIdx.x; i < G::ALL_WORDS / 4; i += S::THREADS) cp_async_16((uint4*)shared + i, from + i);
            cp_async_commit();
        }
    }

    // A plane of streaming weights, into this warp's room.
    __device__ __forceinline__ void bring(int plane) const {
        const uint4* const first = from + plane * (G::PLANE / 4) + lane;
#pragma unroll
        for (int i = 0; i <= G::FOURS; ++i) cp_async_16((uint4*)fragments + i * 32 + lane, first + i * 32);
        cp_async_commit();
    }
    // Its words, as get_words has them. A lane with an element of a diagonal takes it out of eight channels' taps.
    __device__ __forceinline__ void get_streamed(unsigned (&words)[G::WORDS]) const {
        unsigned products[4 * G::FOURS];
#pragma unroll
        for (int i = 0; i < G::FOURS; ++i) {
            const uint4 four = fragments[i * 32 + lane];
            products[4 * i] = four.x, products[4 * i + 1] = four.y;
            products[4 * i + 2] = four.z, products[4 * i + 3] = four.w;
        }
#pragma unroll
        for (int i = 0; i < 4 * G::K_STEPS; ++i) words[i] = products[i];
#pragma unroll
        for (int i = 0; i < 2 * NO; ++i) words[G::PROJECT_0 + i] = products[4 * G::K_STEPS + i];
        const uint4* const table = fragments + G::FOURS * 32;
#pragma unroll
        for (int which = 0; which < 2; ++which) {
            const uint4 four = table[which * 4 + t];
            const unsigned of[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int i = 0; i < 8; ++i) words[(which ? G::DW_BIAS_0 : G::BIAS_0) + i] = of[i / 4 * 2 + i % 2];
        }
        // selectors of __byte_perm: bytes 4 … 7 are zero
        const unsigned even = g / 2 != t ? 0x4444 : g % 2 ? 0x1044 : 0x4410;
        const unsigned odd = g / 2 != t ? 0x4444 : g % 2 ? 0x3244 : 0x4432;
#pragma unroll
        for (int h = 0; h < 2; ++h)
#pragma unroll
            for (int i = 0; i < 3; ++i) {
                const uint2 taps = ((const uint2*)(table + 8))[(h * 8 + g) * 3 + i];
                unsigned* const four = words + G::TAPS_0 + 12 * h + 4 * i;
                four[0] = __byte_perm(taps.x, 0, even), four[1] = __byte_perm(taps.x, 0, odd);
                four[2] = __byte_perm(taps.y, 0, even), four[3] = __byte_perm(taps.y, 0, odd);
            }
    }

    __device__ __forceinline__ void get_words(unsigned (&words)[G::WORDS], int plane) const {
#pragma unroll
        for (int i = 0; i < G::WORDS; i += 4) {
            const uint4 four = fragments[(plane * (G::WORDS / 4) + i / 4) * 32 + lane];
            words[i] = four.x, words[i + 1] = four.y, words[i + 2] = four.z, words[i + 3] = four.w;
        }
    }
    // Of a plane's words the taps and the biases of two eights, from eight `first` on.
    template <int NB>
    __device__ __forceinline__ static void get_taps(unsigned (&taps)[NB][12], float (&bias)[NB][4], int first,
                                                    const unsigned (&words)[G::WORDS]) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
#pragma unroll
            for (int i = 0; i < 12; ++i) taps[first + h][i] = words[G::TAPS_0 + 12 * h + i];
#pragma unroll
            for (int e = 0; e < 4; ++e) bias[first + h][e] = __uint_as_float(words[G::DW_BIAS_0 + 4 * h + e]);
        }
    }

    // What a lane gives project: 16 channels of its outputs, clamped.
    __device__ __forceinline__ void clamped(unsigned (&a)[4], const float (&first)[4], const float (&second)[4]) const {
        a[0] = bounded_halves(first[0], first[1], w.low[1], w.high[1]);
        a[1] = bounded_halves(first[2], first[3], w.low[1], w.high[1]);
        a[2] = bounded_halves(second[0], second[1], w.low[1], w.high[1]);
        a[3] = bounded_halves(second[2], second[3], w.low[1], w.high[1]);
    }

    __device__ __forceinline__ void run(const __half* x, __half* y, int N) {
        if constexpr (G::STEM) run_stem(x, y, N);
        else run_items(x, y, N);
    }

    // ---- Blocks with a 1×1 convolution

    // Of x of an item, this warp's part of the rows, into `to`.
    __device__ __forceinline__ void fetch(const __half* x, int index, __half* to) const {
        constexpr int P = G::PX * G::PIECES, U = P % 32 ? 2 : 1, J = U * P / 32;
        static_assert(U * P % 32 == 0, "pieces");
        const Item item(index);
        const int x0 = item.x0(), y0 = item.y0();
#pragma unroll
        for (int j = 0; j < J; ++j) {
            const unsigned i = lane + 32 * j, row = i / P, q = i % P / G::PIECES, piece = i % G::PIECES;
            const bool column = (unsigned)(x0 + (int)q) < S::W;
            const __half* const from = x + ((item.image * S::H + y0 + (int)row) * S::W + x0 + (int)q) * C + piece * 8;
            __half* const there = to + row * G::X_ROW + G::place(q) * C + G::exchanged(q / (2 * ST), piece) * 8;
#pragma unroll
            for (int first = 0; first < G::ROWS; first += U * G::PARTS) {
                const int r = first + (G::PARTS > 1 ? part * U : 0);
                const bool inside = column && (unsigned)(y0 + (int)row + r) < S::H;
                if (G::ROWS % (U * G::PARTS) == 0 || r + (int)row < G::ROWS)
                    cp_async_16(there + r * G::X_ROW, from + r * S::W * C, inside);
            }
        }
    }

    // 16 hidden channels of an item. What a row waits for, tensor cores, shuffles, shared memory, is asked for a step
    // before it is needed: while row Y is convolved, Y + 1 is expanded and x of Y + 2 comes; an output is projected a
    // step after it is over.
    struct Strip {
        const Alone& at;
        const unsigned (&words)[G::WORDS];
        const unsigned (&bound)[ST][2];
        const __half* x;  // where this lane reads
        int y0;
        float (&sums)[S::STRIP][NO][4];
        unsigned taps[2][12];
        float bias[2][4];
        AloneDepthwise<ST, 2, S::STRIP> depthwise;
        unsigned a[2][ST][G::K_STEPS][4];
        float hidden[ST][2][4];

        template <int Y> __device__ __forceinline__ void load() {
            const int i = at.lane % 8, high = at.lane / 16;
#pragma unroll
            for (int p = 0; p < ST; ++p)
#pragma unroll
                for (int k = 0; k < G::K_STEPS; ++k) {
                    const __half* const from = x + Y * G::X_ROW + p * 16 * C;
                    unsigned(&to)[4] = a[Y % 2][p][k];
                    if (C % 16 && k == G::K_STEPS - 1) {
                        unsigned low[2];
                        ldmatrix_x2(low, from + G::exchanged(i, 2 * k) * 8);
                        to[0] = low[0], to[1] = low[1];
                    } else ldmatrix_x4(to, from + G::exchanged(i, 2 * k + high) * 8);
                }
        }
        template <int Y> __device__ __forceinline__ void expand() {
#pragma unroll
            for (int k = 0; k < G::K_STEPS; ++k)
#pragma unroll
                for (int i = 0; i < 2 * ST; ++i) {
                    const int p = i / 2, h = i % 2;
                    float(&d)[4] = hidden[p][h];
                    const unsigned(&of)[4] = a[Y % 2][p][k];
                    const unsigned b[2] = {words[k * 4 + h * 2], words[k * 4 + h * 2 + 1]};
                    float c[4];
#pragma unroll
                    for (int e = 0; e < 4; ++e) c[e] = __uint_as_float(words[G::BIAS_0 + h * 4 + e]);
                    const bool half = C % 16 && k == G::K_STEPS - 1;
                    if (k == 0 && !half) mma_f16(d, of, b, c);
                    else if (!half) mma_f16(d, of, b);
                    else {
#pragma unroll
                        for (int e = 0; e < 4 && k == 0; ++e) d[e] = c[e];
                        mma_f16_k8(d, {of[0], of[1]}, b[0]);
                    }
                }
        }
        template <int Y> __device__ __forceinline__ void put() {
            const bool inside = (Y > 0 && Y < G::ROWS - 1 && G::OUT_H % S::STRIP == 0) || (unsigned)(y0 + Y) < S::H;
            unsigned bounds[ST][2];
#pragma unroll
            for (int i = 0; i < 2 * ST; ++i) bounds[i / 2][i % 2] = inside ? bound[i / 2][i % 2] : 0;
            depthwise.template put<Y>(hidden, bounds, at.lane, at.every);
        }
        template <int Y> __device__ __forceinline__ void step() {
            constexpr bool IS_OVER = Y >= 3 && (Y - 3) % ST == 0;  // an output row, since the step before
            constexpr int R = IS_OVER ? (Y - 3) / ST : 0;
            if constexpr (Y == 0) load<0>(), expand<0>(), load<1>(), put<0>();
            if constexpr (Y + 1 < G::ROWS) expand<Y + 1>();
            if constexpr (Y + 2 < G::ROWS) load<Y + 2>();
            if constexpr (Y < G::ROWS)
                depthwise.template add<Y>(2, taps, bias), depthwise.template add<Y>(1, taps, bias);
            unsigned of[4];
            if (IS_OVER) at.clamped(of, depthwise.acc[R % 3][0], depthwise.acc[R % 3][1]);
            if constexpr (Y < G::ROWS) depthwise.template add<Y>(0, taps, bias), depthwise.template add_thirds<Y>(taps);
            if (IS_OVER)
#pragma unroll
                for (int n = 0; n < NO; ++n)
                    mma_f16(sums[R][n], of, {words[G::PROJECT_0 + 2 * n], words[G::PROJECT_0 + 2 * n + 1]});
            if constexpr (Y + 1 < G::ROWS) put<Y + 1>();
            if constexpr (Y < G::ROWS) step<Y + 1>();
        }
    };

    __device__ __forceinline__ void run_items(const __half* x, __half* y, int N) {
        every = N >= 0 ? 0xffffffffu : 0;
        const auto fetch_item = [&](int index, __half* to) { fetch(x, index, to); };
        walk_items<G>(N, slot, mine, fetch_item, [&](int index, __half* here, bool busy) {
            const Item item(busy ? index : 0);
            float sums[S::STRIP][NO][4];
            if (busy) compute(sums, item, here);
            if (G::PARTS > 1 && busy) give_sums<G>(sums_of_slot, part, sums);
            G::meet();  // nobody reads x any more
            if constexpr (G::PARTS == 1) put_sums(sums, here);
            else if (busy) put_parts(here);
            G::meet();
            if (busy) copy_out(y, item, here);
        });
    }

    // The sums of an item's outputs, over this warp's hidden channels.
    __device__ __forceinline__ void compute(float (&sums)[S::STRIP][NO][4], const Item& item,
                                            const __half* here) const {
        const unsigned top = pack(w.high[0], w.high[0]);
        unsigned bound[ST][2];
#pragma unroll
        for (int p = 0; p < ST; ++p)
#pragma unroll
            for (int i = 0; i < 2; ++i)
                bound[p][i] = (unsigned)(item.x0() + (2 * g + i) * ST + p) < S::W ? top : 0;
#pragma unroll
        for (int n = 0; n < NO; ++n) {
            float2 two = *(const float2*)(bias + 8 * n + 2 * t);
            if (G::PARTS > 1 && part > 0) two = make_float2(0, 0);
#pragma unroll
            for (int r = 0; r < S::STRIP; ++r)
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    float more[2] = {};
                    if (S::ADDS_X && (G::PARTS == 1 || part == 0))
                        unpack(more[0], more[1], *(const unsigned*)(here + ((r + 1) * 16 + i * 8 + g) * C +
                                                                   G::exchanged(g, n) * 8 + 2 * t));
                    sums[r][n][2 * i] = two.x + more[0], sums[r][n][2 * i + 1] = two.y + more[1];
                }
        }
#pragma unroll 1
        for (int plane = part; plane < G::PLANES; plane += G::PARTS) {
            unsigned words[G::WORDS];
            if constexpr (G::STREAMS) {
                get_streamed(words);
                __syncwarp();  // its room is free
                bring(plane + G::PARTS < G::PLANES ? plane + G::PARTS : part);
            } else get_words(words, plane);
            Strip strip{*this, words, bound, here + lane % 16 * C, item.y0(), sums};
            get_taps(strip.taps, strip.bias, 0, words);
            strip.template step<0>();
            if constexpr (G::STREAMS) {
                cp_async_wait<0>();
                __syncwarp();
            }
        }
    }

    // y where x was: [row][pixel][channel], of 16 pixels.
    __device__ __forceinline__ void put_sums(const float (&sums)[S::STRIP][NO][4], __half* here) const {
        const int pixel = 2 * (lane % 8) + lane / 8 % 2;
#pragma unroll
        for (int r = 0; r < S::STRIP; ++r)
#pragma unroll
            for (int n = 0; n < NO; n += 2) {
                unsigned v[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float(&d)[4] = sums[r][n + i / 2 < NO ? n + i / 2 : n];
                    v[i] = bounded_halves(d[i % 2 * 2], d[i % 2 * 2 + 1], w.low[2], w.high[2]);
                }
                __half* const to = here + (r * 16 + pixel) * O + n * 8;
                if (n + 1 < NO) stmatrix_x4(to + lane / 16 * 8, v);
                else stmatrix_x2(to, {v[0], v[1]});
            }
    }
    // The same of several warps, of the outputs whose sums this one adds up.
    __device__ __forceinline__ void put_parts(__half* here) const {
        add_sums<G>(sums_of_slot, part, [&](int i, const float(&d)[4]) {
            unsigned* const to = (unsigned*)(here + (i / NO * 16 + 2 * g) * O + i % NO * 8 + 2 * t);
            to[0] = bounded_halves(d[0], d[1], w.low[2], w.high[2]);
            to[O / 2] = bounded_halves(d[2], d[3], w.low[2], w.high[2]);
        });
    }
    __device__ __forceinline__ void copy_out(__half* y, const Item& item, const __half* here) const {
        constexpr int OF_ROW = ALONE_COLUMNS * NO, FIRST = ST == 1 ? O : 0;
        __half* const y_item = y + ((item.image * G::OUT_H + item.oy) * G::OUT_W + item.ox) * O;
#pragma unroll 2
        for (unsigned i = lane + 32 * (G::PARTS > 1 ? part : 0); i < S::STRIP * OF_ROW; i += 32 * G::PARTS) {
            const unsigned r = i / OF_ROW, rest = i - r * OF_ROW;
            if ((G::OUT_H % S::STRIP == 0 || item.oy + (int)r < G::OUT_H) &&
                (G::OUT_W % ALONE_COLUMNS == 0 || item.ox + (int)rest / NO < G::OUT_W))
                *(uint4*)(y_item + r * (G::OUT_W * O) + rest * 8) =
                    *(const uint4*)(here + r * 16 * O + FIRST + rest * 8);
        }
    }

    // ---- A stem

    // A place in the ring, in words.
    __device__ __forceinline__ static int after(int place) {
        return place == (G::PAIRS - 1) * G::PAIR ? 0 : place + G::PAIR;
    }

    struct Stream {  // pairs of rows of pixels, from the first item of a warp to its last
        static constexpr int DOWN = S::INPUT_W * 3;  // halves
        const Alone& at;
        const __half *x, *from;
        int index, all, step, pair, row, put;
        bool column;
        __device__ __forceinline__ void begin() {
            pair = 0;
            const Item item(index < all ? index : 0);
            const int first = (28 * (item.ox / ALONE_COLUMNS) - 4) * 3 + at.lane * 4;
            row = index < all ? 2 * (item.y0() - 1) : -0x40000000;
            column = (unsigned)first < DOWN;
            from = x + (item.image * S::INPUT_H + 2 * (item.y0() - 1)) * DOWN + first;
        }
        __device__ __forceinline__ void bring() {
            unsigned* const to = (unsigned*)at.mine + put + at.lane * 2;
#pragma unroll
            for (int i = 0; i < 2; ++i)
                cp_async_8(to + i * G::ROW, from + i * DOWN, column && (unsigned)(row + i) < S::INPUT_H);
            cp_async_commit();
            put = after(put), row += 2, from += 2 * DOWN;
            if (++pair == G::ROWS + 1) {
                index += step;
                begin();
            }
        }
    };

    struct StemRows {  // steps as those of Strip
        static constexpr int AHEAD = 5;
        const Alone& at;
        const unsigned (&words)[2][G::WORDS];
        const unsigned (&taps)[4][12];
        const float (&bias)[4][4];
        const float (&y_bias)[NO][4];
        Stream& stream;
        const unsigned *pixels, *ends;  // of this lane, at place 0
        __half* staged;
        int place;  // in the ring, of the pair whose second row is the first one of the next row of hidden pixels
        AloneDepthwise<1, 4, 1 << 30> depthwise;  // its rows come six by six
        unsigned a[2][4];
        float hidden[1][4][4];

        __device__ __forceinline__ void load() {
            stream.bring();
            cp_async_wait<AHEAD>();
            __syncwarp();
            const int next = after(place);
            const unsigned *const r0 = pixels + place + G::ROW, *const r1 = pixels + next;
            const unsigned* const last = ends + (at.t == 0 ? place : at.t == 3 ? 0 : next);
            a[0][0] = r0[0], a[0][1] = r0[3], a[0][2] = r1[0], a[0][3] = r1[3];
            a[1][0] = r1[G::ROW], a[1][1] = r1[G::ROW + 3], a[1][2] = last[0], a[1][3] = last[3];
            place = next;
        }
        __device__ __forceinline__ void expand() {
            const float zero[4] = {};
#pragma unroll
            for (int k = 0; k < 2; ++k)
#pragma unroll
                for (int h = 0; h < 4; ++h) {
                    const unsigned b[2] = {words[h / 2][4 * k + h % 2 * 2], words[h / 2][4 * k + h % 2 * 2 + 1]};
                    if (k == 0) mma_f16(hidden[0][h], a[0], b, zero);
                    else mma_f16(hidden[0][h], a[1], b);
                }
        }
        template <int Y> __device__ __forceinline__ void put(const unsigned (&bound)[2], bool inside) {
            const unsigned bounds[1][2] = {{inside ? bound[0] : 0, inside ? bound[1] : 0}};
            depthwise.template put<Y>(hidden, bounds, at.lane, at.every);
        }
        // Row Y of the hidden pixels, of those that are unrolled. A row of outputs that was over goes to `to`, if
        // `stored`.
        template <int Y>
        __device__ __forceinline__ void step(bool has_next, bool has_second, const unsigned (&bound)[2],
                                             bool inside_next, __half* to, bool stored) {
            if (has_next) expand();
            if (has_second) load();
            depthwise.template add<Y>(2, taps, bias), depthwise.template add<Y>(1, taps, bias);
            unsigned of[2][4];
#pragma unroll
            for (int p = 0; p < 2; ++p)
                at.clamped(of[p], depthwise.acc[Y % 3][2 * p], depthwise.acc[Y % 3][2 * p + 1]);
            depthwise.template add<Y>(0, taps, bias), depthwise.template add_thirds<Y>(taps);
            float sums[NO][4];
#pragma unroll
            for (int p = 0; p < 2; ++p)
#pragma unroll
                for (int n = 0; n < NO; ++n) {
                    const unsigned b[2] = {words[p][G::PROJECT_0 + 2 * n], words[p][G::PROJECT_0 + 2 * n + 1]};
                    if (p == 0) mma_f16(sums[n], of[p], b, y_bias[n]);
                    else mma_f16(sums[n], of[p], b);
                }
            if (has_next) put<Y + 1>(bound, inside_next);
            unsigned out[4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                out[i] = bounded_halves(sums[i / 2][i % 2 * 2], sums[i / 2][i % 2 * 2 + 1], at.w.low[2], at.w.high[2]);
            // matrix m: even or odd pixels, first or second 8 channels; its row g lies at g ^ 2m
            const int m = at.lane / 8;
            stmatrix_x4(staged + (m * 8 + (at.lane % 8 ^ 2 * m)) * 8, out);
            __syncwarp();
            const int pixel = at.lane / 2, from = pixel % 2 + at.lane % 2 * 2;
            const uint4 eight = *(const uint4*)(staged + (from * 8 + (pixel / 2 ^ 2 * from)) * 8);
            if (stored) *(uint4*)to = eight;
        }
    };

    __device__ __forceinline__ void run_stem(const __half* x, __half* y, int N) {
        const int all = N * G::ITEMS, step = gridDim.x * G::WARPS;
        int index = blockIdx.x * G::WARPS + warp;
        every = N >= 0 ? 0xffffffffu : 0;
        const unsigned top = pack(w.high[0], w.high[0]);
        unsigned* const constants = (unsigned*)mine + G::RING + G::STAGED;
        __half* const staged = mine + 2 * G::RING;
        if (lane < 4) constants[lane] = 0x3c00;  // 1 and 0: what the bias is multiplied by
        cp_async_wait<0>();
        __syncthreads();  // the weights are there
        unsigned words[2][G::WORDS], taps[4][12];
        float dw_bias[4][4], y_bias[NO][4];
#pragma unroll
        for (int p = 0; p < 2; ++p) {
            get_words(words[p], p);
            get_taps(taps, dw_bias, 2 * p, words[p]);
        }
#pragma unroll
        for (int i = 0; i < NO * 4; ++i)  // each twice, so that no compiler knows, and copies them anew
            y_bias[i / 4][i % 4] = ((const volatile float*)bias)[i / 4 * 8 + 2 * t + i % 2];
        wait_for_inputs();
        Stream stream{*this, x, x, index, all, step, 0, 0, 0, false};
        stream.begin();
        for (int i = 0; i < StemRows::AHEAD + 1; ++i) stream.bring();
        launch_dependents();
        const unsigned* const pixels = (const unsigned*)mine + 6 * g + 1;
        const unsigned* const ends = t == 3 ? constants : pixels + 4 + (t == 1 ? 0 : G::ROW);
        StemRows rows{*this, words, taps, dw_bias, y_bias, stream, pixels + t, ends, staged, 0};
        for (; index < all; index += step) {
            const Item item(index);
            unsigned bound[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) bound[i] = (unsigned)(item.x0() + 2 * g + i) < S::W ? top : 0;
            const int pixel = lane / 2;
            const bool stored = pixel > 0 && pixel <= ALONE_COLUMNS && item.ox + pixel <= G::OUT_W;
            __half* to =
                y + ((item.image * G::OUT_H + item.oy - 3) * G::OUT_W + item.ox + pixel - 1) * O + lane % 2 * 8;
            rows.load(), rows.expand(), rows.load();
            rows.template put<0>(bound, item.y0() >= 0);
#pragma unroll 1
            for (int k = 0; k < G::ROWS; k += 6, to += 6 * (G::OUT_W * O)) six<0>(rows, item, k, bound, stored, to);
            rows.template step<6>(false, false, bound, false, to, stored && item.oy + S::STRIP <= G::OUT_H);
            stream.bring();  // an item has a pair more than rows
            rows.place = after(rows.place);
        }
    }
    template <int I>
    __device__ __forceinline__ void six(StemRows& rows, const Item& item, int k, const unsigned (&bound)[2],
                                        bool stored, __half* to) const {
        if constexpr (I < 6) {
            const int y = k + I;
            const bool inside = G::OUT_H % S::STRIP == 0 || item.oy + y - 3 < G::OUT_H;
            rows.template step<I + 6>(I < 5 || y + 1 < G::ROWS, I < 4 || y + 2 < G::ROWS, bound,
                                      (unsigned)(item.y0() + y + 1) < S::H, to + I * (G::OUT_W * O),
                                      stored && (I >= 3 || k > 0) && inside);
            six<I + 1>(rows, item, k, bound, stored, to);
        }
    }
};
