// rows.h - a whole inverted-residual block by thread blocks that take rows of an image: halves, 14 outputs a row.
//
//   Rows<S> block(shared, weights, N);      S: a struct of numbers, which generate.py writes
//   block.run(bounds, x, y);
//
// A tile is ROWS whole rows of an image, or of two images side by side. A cluster of SPLIT thread blocks shares a tile,
// each with its part of the hidden channels, which it takes in PARTS one after the other. Of each part:
//
//   hidden    a warp takes some eights of the channels: expand and depthwise of all rows, as in alone.h. What comes out
//             goes to shared memory as fragments: a lane stores what the same lane of another warp multiplies
//   project   a warp takes NEAR rows and 16 outputs, and adds up all hidden channels in its registers
//
// After each there is a barrier. Compared with alone.h: sums of outputs are not added up across warps, and nobody has
// them in registers while hidden channels are made. Compared with block.h: no barrier between expand and depthwise, and
// no operand is put in order by the kernel: the host has put the weights in order (fragments.py), and bulk copies bring
// those of a part, by one thread, as soon as what lay in their place has been read. Where all parts have room (STAGES),
// they come once.
//
//     thread block 0    half of the hidden channels ──► sums ──┐ ┌──► + ──► y, every second unit
//                                                              ├─┤                                       SPLIT = 2
//     thread block 1    the other half              ──► sums ──┘ └──► + ──► y, the others
//
// What hidden needs of the weights goes to registers while x is on its way.
#pragma once
#include "bulk.h"
#include "fused/alone.h"

template <class S> struct Rows {
    static constexpr int H = S::H, W = S::W, C = S::C, O = S::O, ROWS = S::ROWS, SPLIT = S::SPLIT, WARPS = S::WARPS;
    static constexpr int ST = S::STRIDE, OUT_H = (H - 1) / ST + 1, OUT_W = (W - 1) / ST + 1;
    static constexpr int SIDE = S::SIDE, THREADS = 32 * WARPS, GROUPS = ceil_div(OUT_H, ROWS), PAIRS = O / 16;
    static constexpr int K_STEPS = C / 16, EIGHTS = S::PART / 8, NB = ceil_div(EIGHTS, WARPS), STEPS = S::PART / 16;
    static constexpr int IN = (ROWS - 1) * ST + 3, X_ROW = 16 * ST * C, X = IN * X_ROW;  // rows of x; halves
    // project: a warp's rows, and how many pairs of eights it takes one after the other. A unit is a row and a pair;
    // the units are dealt out to the blocks of a cluster
    static constexpr int NEAR = S::NEAR, BESIDE = WARPS / (ROWS / NEAR), PASSES = ceil_div(PAIRS, BESIDE);
    static constexpr int UNITS = ROWS * PAIRS, OWN = ceil_div(UNITS, SPLIT);
    // in 16 bytes: of an eight, fragments of expand, then biases and taps; of a part, hidden's weights and project's
    static constexpr int OF_EIGHT = K_STEPS * 16 + 16, OF_HIDDEN = EIGHTS * OF_EIGHT;
    static constexpr int OF_PROJECT = PAIRS * STEPS * 32 + O / 4;
    static constexpr bool STAY = S::STAGES == S::PARTS;
    // in shared memory, in 16 bytes
    static constexpr int COUNTERS = S::STAGES + 1, XS = COUNTERS, DW = XS + X / 8;
    static constexpr int SUMS = DW + ROWS * EIGHTS * 16, OF_SUMS = OWN * 64;
    static constexpr int WEIGHTS = SUMS + (SPLIT - 1) * OF_SUMS, OF_STAGE = OF_HIDDEN + OF_PROJECT;
    static_assert(C % 32 == 0 && O % 16 == 0 && EIGHTS % NB == 0 && EIGHTS % 2 == 0, "channels");
    static_assert(SIDE == 1 ? OUT_W <= 14 : OUT_W <= 7, "columns");
    static_assert(ROWS % NEAR == 0 && WARPS % (ROWS / NEAR) == 0, "tile");

    const uint4* weights;
    uint4* const shared;
    Mbarrier* const there;  // of each stage's weights, hidden's and project's
    Mailbox* const mail;
    int lane, g, t, warp, rank;
    const int N;
    int asked[2] = {}, part = 0, all;  // parts that were asked for, and that are over, of all tiles; all: of this block
    unsigned every;                    // all bits, which no compiler knows

    // A row has 16 · STRIDE hidden pixels, of one image or of two, side by side: a column of the border, then those of
    // the image. At stride 1 outputs lie where hidden pixels do; at stride 2 output o needs 2o, 2o + 1 and 2o + 2. In
    // shared memory every 2 · STRIDE-th pixel is side by side, and pieces of 16 bytes are exchanged (alone.h).
    __device__ __forceinline__ static unsigned at_place(unsigned row, unsigned at, unsigned piece) {
        constexpr int PIECES = C / 8, EXCHANGED = PIECES % 8 == 0 ? 8 : 4;
        return row * X_ROW + at * C + (piece ^ at % 8 / (8 / EXCHANGED) % EXCHANGED) * 8;
    }
    __device__ __forceinline__ static unsigned place(unsigned row, unsigned q, unsigned piece) {
        return at_place(row, ST == 1 ? q % 2 * 8 + q / 2 : (q % 2 * 2 + q / 2 % 2) * 8 + q / 4, piece);
    }
    __device__ __forceinline__ static bool is_hidden(int q) {
        const int column = SIDE == 1 ? q : q % (8 * ST);
        return column >= 1 && column <= W;
    }
    __device__ __forceinline__ static int column_of(int o) { return (SIDE == 1 ? o : o % 8) - (ST == 1); }  // outputs
    __device__ __forceinline__ static bool is_out(int o) { return column_of(o) >= 0 && column_of(o) < OUT_W; }

    __device__ __forceinline__ Rows(void* memory, const uint4* weights, int N)
        : weights(weights), shared((uint4*)memory), there((Mbarrier*)memory), mail((Mailbox*)(there + 2 * S::STAGES)),
          N(N) {
        lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
        rank = SPLIT > 1 ? (int)cluster_rank() : 0;
        every = N >= 0 ? 0xffffffffu : 0;
        const int first = blockIdx.x / SPLIT, step = gridDim.x / SPLIT;
        all = STAY ? S::PARTS : (tiles() - first + step - 1) / step * S::PARTS;
        if (threadIdx.x == 0) {
            for (int i = 0; i < 2 * S::STAGES; ++i) there[i].init(1);
            mbarriers_ready();
            if (SPLIT > 1) mail->open();
            for (int i = 0; i < S::STAGES; ++i) ask(0), ask(1);
        }
        for (int i = threadIdx.x; i < X / 8; i += THREADS) shared[XS + i] = make_uint4(0, 0, 0, 0);
        if constexpr (SPLIT > 1) cluster_started();
        else __syncthreads();
    }

    __device__ __forceinline__ __half* x_here() const { return (__half*)(shared + XS); }
    __device__ __forceinline__ int tiles() const { return (N + SIDE - 1) / SIDE * GROUPS; }

    // One thread asks for the next part's weights of hidden (0) or project (1), whose place is free.
    __device__ __forceinline__ void ask(int which) {
        const int next = asked[which]++;
        if (next >= all) return;
        const int stage = next % S::STAGES, size = which ? OF_PROJECT : OF_HIDDEN;
        Mbarrier& bar = there[2 * stage + which];
        bar.expect(size * 16);
        bulk_copy(shared + WEIGHTS + stage * OF_STAGE + (which ? OF_HIDDEN : 0),
                  weights + (next % S::PARTS * SPLIT + rank) * OF_STAGE + (which ? OF_HIDDEN : 0), size * 16, bar);
    }

    // The rows of x of a tile.
    __device__ __forceinline__ void fetch(const __half* x, int tile) const {
        constexpr int OF_ROW = W * (C / 8), ALL = IN * SIDE * OF_ROW;
        const int first = tile / GROUPS * SIDE, y0 = tile % GROUPS * (ROWS * ST) - 1;
#pragma unroll 4
        for (unsigned i = threadIdx.x; i < ALL; i += THREADS) {
            const unsigned r = i / (SIDE * OF_ROW), rest = i % (SIDE * OF_ROW), side = rest / OF_ROW;
            const unsigned column = rest % OF_ROW / (C / 8), piece = i % (C / 8);
            const int y = y0 + (int)r, image = first + (int)side;
            cp_async_16(x_here() + place(r, side * (8 * ST) + column + 1, piece),
                        x + ((image * H + y) * W + (int)column) * C + piece * 8, (unsigned)y < H && image < N);
        }
        cp_async_commit();
    }

    // ---- Hidden: all rows of the tile, of a warp's eights of a part's channels

    struct Hidden {
        const Rows& at;
        const AloneBounds& w;
        uint2* dw;  // of this lane, of the first of the eights
        int y0;     // of x's first row, in the image
        unsigned top;
        unsigned b[NB][2 * K_STEPS], taps[NB][12], a[2][ST][K_STEPS][4];
        float first[NB][2], bias[NB][4], hidden[ST][NB][4];
        AloneDepthwise<ST, NB, ROWS> depthwise;

        __device__ __forceinline__ void get_weights(const uint4* from) {
            const int g = at.g, t = at.t;
            // selectors of __byte_perm, of what a lane with an element of a diagonal takes; bytes 4 … 7 are zero
            const unsigned even = g / 2 != t ? 0x4444 : g % 2 ? 0x1044 : 0x4410;
            const unsigned odd = g / 2 != t ? 0x4444 : g % 2 ? 0x3244 : 0x4432;
#pragma unroll
            for (int n = 0; n < NB; ++n, from += OF_EIGHT) {
#pragma unroll
                for (int k = 0; k < K_STEPS / 2; ++k) {
                    const uint4 four = from[k * 32 + at.lane];
                    b[n][4 * k] = four.x, b[n][4 * k + 1] = four.y, b[n][4 * k + 2] = four.z, b[n][4 * k + 3] = four.w;
                }
                const float2* const biases = (const float2*)(from + K_STEPS * 16);
                const uint2* const of_channel = (const uint2*)(biases + 8) + 3 * g;
                first[n][0] = biases[t].x, first[n][1] = biases[t].y;
#pragma unroll
                for (int e = 0; e < 4; ++e) bias[n][e] = e % 2 ? biases[4 + t].y : biases[4 + t].x;
#pragma unroll
                for (int i = 0; i < 3; ++i) {
                    const uint2 two = of_channel[i];
                    taps[n][4 * i] = __byte_perm(two.x, 0, even), taps[n][4 * i + 1] = __byte_perm(two.x, 0, odd);
                    taps[n][4 * i + 2] = __byte_perm(two.y, 0, even), taps[n][4 * i + 3] = __byte_perm(two.y, 0, odd);
                }
            }
        }
        template <int Y> __device__ __forceinline__ void load() {
#pragma unroll
            for (int p = 0; p < ST; ++p)
#pragma unroll
                for (int k = 0; k < K_STEPS; ++k)
                    ldmatrix_x4(a[Y % 2][p][k], at.x_here() + at_place(Y, p * 16 + at.lane % 16, 2 * k + at.lane / 16));
        }
        template <int Y> __device__ __forceinline__ void expand() {
#pragma unroll
            for (int k = 0; k < K_STEPS; ++k)
#pragma unroll
                for (int i = 0; i < NB * ST; ++i) {
                    const int n = i % NB, p = i / NB;
                    float(&d)[4] = hidden[p][n];
                    const unsigned(&of)[4] = a[Y % 2][p][k];
                    if (k == 0)
                        mma_f16(d, of, {b[n][0], b[n][1]}, {first[n][0], first[n][1], first[n][0], first[n][1]});
                    else mma_f16(d, of, {b[n][2 * k], b[n][2 * k + 1]});
                }
        }
        template <int Y> __device__ __forceinline__ void put() {
            const bool inside = (Y > 0 && Y < IN - 1 && OUT_H % ROWS == 0) || (unsigned)(y0 + Y) < H;
            unsigned bounds[ST][2];
#pragma unroll
            for (int i = 0; i < 2 * ST; ++i)
                bounds[i / 2][i % 2] = inside && is_hidden((2 * at.g + i % 2) * ST + i / 2) ? top : 0;
            depthwise.template put<Y>(hidden, bounds, at.lane, at.every);
        }
        template <int R> __device__ __forceinline__ void store() {
#pragma unroll
            for (int n = 0; n < NB; ++n) {
                const float(&d)[4] = depthwise.acc[R % 3][n];
                dw[(R * EIGHTS + n) * 32] = make_uint2(bounded_halves(d[0], d[1], w.low[1], w.high[1]),
                                                       bounded_halves(d[2], d[3], w.low[1], w.high[1]));
            }
        }
        // While row Y is convolved, Y + 1 is expanded and x of Y + 2 comes; a row is stored a step after it is over.
        template <int Y> __device__ __forceinline__ void walk() {
            if constexpr (Y == 0) load<0>(), expand<0>(), load<1>(), put<0>();
            if constexpr (Y + 1 < IN) expand<Y + 1>();
            if constexpr (Y + 2 < IN) load<Y + 2>();
            if constexpr (Y < IN) depthwise.template add<Y>(2, taps, bias), depthwise.template add<Y>(1, taps, bias);
            if constexpr (Y >= 3 && (Y - 3) % ST == 0) store<(Y - 3) / ST>();
            if constexpr (Y < IN) depthwise.template add<Y>(0, taps, bias), depthwise.template add_thirds<Y>(taps);
            if constexpr (Y + 1 < IN) put<Y + 1>();
            if constexpr (Y < IN) walk<Y + 1>();
        }
    };

    // ---- Project: of NEAR rows 16 outputs. A lane has channels 4t … 4t + 3 of its pixels 2g and 2g + 1.

    __device__ __forceinline__ void project(float4 (&sums)[NEAR][2], const uint4* from, int row, int pair) const {
        constexpr int CHAINS = NEAR == 1 && STEPS > 1 ? 2 : 1;  // so that few products wait for each other
        const uint2* const dw = (const uint2*)(shared + DW) + row * (EIGHTS * 32) + lane;
        const uint4* const of_pair = from + pair * (STEPS * 32) + lane;
        float d[CHAINS][NEAR][2][4];
#pragma unroll
        for (int k = 0; k < STEPS; ++k) {
            const uint4 b = of_pair[k * 32];
#pragma unroll
            for (int r = 0; r < NEAR; ++r) {
                const uint2 first = dw[(r * EIGHTS + 2 * k) * 32], second = dw[(r * EIGHTS + 2 * k + 1) * 32];
                const unsigned a[4] = {first.x, first.y, second.x, second.y};
                const float zero[4] = {};
                float(&of)[2][4] = d[k % CHAINS][r];
                if (k < CHAINS) mma_f16(of[0], a, {b.x, b.y}, zero), mma_f16(of[1], a, {b.z, b.w}, zero);
                else mma_f16(of[0], a, {b.x, b.y}), mma_f16(of[1], a, {b.z, b.w});
            }
        }
#pragma unroll
        for (int r = 0; r < NEAR; ++r)
#pragma unroll
            for (int c = 0; c < CHAINS; ++c)
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const float(&of)[2][4] = d[c][r];
                    sums[r][i].x += of[0][2 * i], sums[r][i].y += of[0][2 * i + 1];
                    sums[r][i].z += of[1][2 * i], sums[r][i].w += of[1][2 * i + 1];
                }
    }
    // Where the sums of one of this block's units lie that another block sent.
    __device__ __forceinline__ float4* letter(int from, int to, int unit) const {
        return (float4*)(shared + SUMS) + (from - (from > to)) * OF_SUMS + unit / SPLIT * 64 + lane;
    }

    // A row's outputs, from the sums of the lane's two pixels. row: of the tile.
    __device__ __forceinline__ void write(__half* y, const AloneBounds& w, const float4 (&sums)[2], int row, int tile,
                                          int pair) const {
        uint2 out[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float v[4] = {sums[i].x, sums[i].y, sums[i].z, sums[i].w};
            if (S::ADDS_X) {
                const uint2 four = *(const uint2*)(x_here() + place(row + 1, 2 * g + i, 2 * pair + t / 2) + t % 2 * 4);
                float of[4];
                unpack(of[0], of[1], four.x), unpack(of[2], of[3], four.y);
#pragma unroll
                for (int e = 0; e < 4; ++e) v[e] += of[e];
            }
            out[i] = make_uint2(bounded_halves(v[0], v[1], w.low[2], w.high[2]),
                                bounded_halves(v[2], v[3], w.low[2], w.high[2]));
        }
        const bool odd = t % 2;  // takes the odd pixel, from its neighbour the first four channels
        uint2 mine = odd ? out[1] : out[0], other = odd ? out[0] : out[1];
        other.x = __shfl_xor_sync(0xffffffffu, other.x, 1), other.y = __shfl_xor_sync(0xffffffffu, other.y, 1);
        const uint2 low = odd ? other : mine, high = odd ? mine : other;
        const int o = 2 * g + odd, image = tile / GROUPS * SIDE + (SIDE > 1 ? o / 8 : 0);
        const int at_y = tile % GROUPS * ROWS + row;
        if (is_out(o) && (OUT_H % ROWS == 0 || at_y < OUT_H) && (SIDE == 1 || image < N))
            *(uint4*)(y + ((image * OUT_H + at_y) * OUT_W + column_of(o)) * O + 16 * pair + t / 2 * 8) =
                make_uint4(low.x, low.y, high.x, high.y);
    }

    __device__ __forceinline__ void run(const AloneBounds& w, const __half* x, __half* y) {
        const int all_tiles = tiles(), step = gridDim.x / SPLIT;
        const int row = warp % (ROWS / NEAR) * NEAR, first_pair = warp / (ROWS / NEAR);
        const bool works = warp * NB < EIGHTS;
        int tile = blockIdx.x / SPLIT;
        wait_for_inputs();  // until here nothing depends on the kernel before
        if (tile < all_tiles) fetch(x, tile);
        launch_dependents();
        for (int turn = 0; tile < all_tiles; tile += step, ++turn) {
            const bool more = tile + step < all_tiles;
            if (SPLIT > 1 && threadIdx.x == 0)
                mail->expect((UNITS - rank + SPLIT - 1) / SPLIT * (SPLIT - 1) * SIDE * OUT_W * 64);
            float4 sums[PASSES][NEAR][2] = {};
#pragma unroll 1
            for (int k = 0; k < S::PARTS; ++k, ++part) {
                const int stage = part % S::STAGES;
                const unsigned parity = STAY ? 0 : part / S::STAGES % 2;
                const uint4* const of_hidden = shared + WEIGHTS + stage * OF_STAGE;
                const uint4* const of_project = of_hidden + OF_HIDDEN;
                Hidden hidden{*this, w, (uint2*)(shared + DW) + warp * NB * 32 + lane,
                              tile % GROUPS * (ROWS * ST) - 1, pack(w.high[0], w.high[0])};
                there[2 * stage].wait(parity);
                if (works) hidden.get_weights(of_hidden + warp * NB * OF_EIGHT);
                if (k == 0) {  // x is on its way meanwhile
                    cp_async_wait<0>();
                    __syncthreads();
                }
                if (works) hidden.template walk<0>();
                __syncthreads();  // dw is there, and hidden's weights are free
                if (!STAY && threadIdx.x == 0) ask(0);
                there[2 * stage + 1].wait(parity);
#pragma unroll
                for (int p = 0; p < PASSES; ++p) {
                    const int pair = first_pair + p * BESIDE;
                    if (pair >= PAIRS) continue;
                    if (k == 0) {
                        const float4 bias = ((const float4*)(of_project + PAIRS * STEPS * 32))[pair * 4 + t];
#pragma unroll
                        for (int r = 0; r < NEAR; ++r)
                            if (SPLIT == 1 || (pair * ROWS + row + r) % SPLIT == rank)
                                sums[p][r][0] = sums[p][r][1] = bias;
                    }
                    project(sums[p], of_project, row, pair);
                    if (SPLIT > 1 && k == S::PARTS - 1)
#pragma unroll
                        for (int r = 0; r < NEAR; ++r) {
                            const int unit = pair * ROWS + row + r, owner = unit % SPLIT;
                            if (owner == rank) continue;
#pragma unroll
                            for (int i = 0; i < 2; ++i)
                                if (is_out(2 * g + i))
                                    mail->send(letter(rank, owner, unit) + i * 32, owner, sums[p][r][i]);
                        }
                }
                __syncthreads();  // dw and project's weights are free
                if (!STAY && threadIdx.x == 0) ask(1);
            }
            if constexpr (SPLIT > 1) mail->wait(turn % 2);
#pragma unroll
            for (int p = 0; p < PASSES; ++p)
#pragma unroll
                for (int r = 0; r < NEAR; ++r) {
                    const int pair = first_pair + p * BESIDE, unit = pair * ROWS + row + r;
                    if (pair >= PAIRS || (SPLIT > 1 && unit % SPLIT != rank)) continue;
#pragma unroll
                    for (int i = 0; i < 2 * (SPLIT - 1); ++i) {
                        if (!is_out(2 * g + i % 2)) continue;  // nobody has written there
                        const float4 more = letter(i / 2 + (i / 2 >= rank), rank, unit)[i % 2 * 32];
                        float4& sum = sums[p][r][i % 2];
                        sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
                    }
                    write(y, w, sums[p][r], row + r, tile, pair);
                }
            if (!more) break;
            if constexpr (SPLIT > 1) cluster_sync();  // before another block's letters come; nobody reads x any more
            else __syncthreads();
            fetch(x, tile + step);
        }
        if constexpr (SPLIT > 1) {
            __syncthreads();  // nobody waits any more
            if (threadIdx.x == 0) mail->close();
        }
    }
};
