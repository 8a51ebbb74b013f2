// stage_int8 - consecutive blocks of MobileNetV2 in int8 on images of 14 × 14 pixels, as one kernel: for so few images
// that a multiprocessor has no more than a part of one.
// requires: sm_90
//
//   x (N, 14, 14, C of the first block), y: NHWC. All blocks have stride 1, or the last one has 2. weights: of all
//   slices of 192 hidden channels the stages of sliding_int8.cu, each with project behind it: at stride 1 in tiles, as
//   wgmma reads them. plan: int [TURNS][4]: of each slice, where it begins in weights, and bytes of its stage and of
//   its project, in units of 16; then of each block [2·MOST_OUT + 8]: project's bias, its multipliers, and Numbers.
//   packets [2][N][2][14·MOST/8] and counters [4·N]: zeros at first, and nobody else's. BLOCKS: for each `count` blocks
//   that are alike BLOCK(C, O, stride, SMALL_PROJECT, whether x is added, ONE_SUM, RESIDUAL_FIRST, slices, count).
//   The bits are those of inverted_residual_int8, one block after the other.
//
// Four thread blocks take an image, two clusters. An outer one has four rows of outputs, an inner one three; both
// compute four rows of hidden pixels, and get a fifth one:
//
//     thread block, its outputs     hidden pixels: its rows 0 … 3, and from the other block of the cluster
//     0   0 1 2 3                   3  2  1  0         4
//     1           4 5 6             4  5  6 (7)        3
//     2                 7 8 9       9  8  7 (6)       10
//     3                 10 … 13    10 11 12 13         9
//
//   Rows count from where the cluster's blocks meet; in blocks 0 and 2 that is upwards, and the rows of taps are
//   exchanged. A warp sends the codes of its row 0, a register for two pixels, to the same warp of the other block,
//   which needs them last. Outputs stay in shared memory as x of the next block. Its rows in brackets come from another
//   cluster, through global memory (packet.h), while the other three are expanded.
//
//   Products, codes and their places are those of sliding_int8.cu. A warp has 16 channels of a slice; project of a
//   slice runs beside depthwise of the next one. At stride 2 a thread block has two rows of outputs: of rows 0 … 2 and
//   2 … 4 upwards (4 is beside the image), of −1 … 1 and 1 … 3 downwards. Block 2 has one, of rows 9 … 7.
#include "block_int8.h"
#include "bulk.h"
#include "packet.h"
#include "wgmma_bytes.h"

constexpr int WARPS = 12, THREADS = 32 * WARPS, SLICE = 16 * WARPS, IMAGE = 14, ROWS = 4;
// slices that are on their way or read: of expand and depthwise, and of project, which is read a turn later
constexpr int STAGES = 3, W3S = 2;
__host__ __device__ constexpr int row_of(int channels) { return channels | 16; }  // as in sliding_int8.cu
// bytes of shared memory. Of x's rows columns −1, 1, 3, … come first, then 0, 2, …. At stride 1 dw and project are
// tiles of 128 channels, at stride 2 rows of ROW bytes
constexpr int ENDS = 24 * SLICE, STAGE = SLICE * row_of(MOST) + 2 * ENDS, TILES = ceil_div(SLICE, 128);
constexpr int DW_TILE = ROWS * 16 * 128, DW = TILES * DW_TILE, ROW = row_of(SLICE);
constexpr int X_SIZE = ROWS * 16 * row_of(MOST), MAIL = WARPS * 32 * 8;
constexpr int OF_BLOCK = 2 * MOST_OUT + 8, PLAN = 4 * TURNS + COUNT * OF_BLOCK, PACKETS = IMAGE * MOST / 8;
constexpr unsigned ALL = 0xffffffffu;

struct Numbers {
    int hidden_zero;  // the code's byte, four times
    Output to;
};

// What a thread block has, and where it is: the turn counts slices of all blocks.
struct Stage {
    signed char *x, *dws, *stages, *w3s;
    uint2* mail;                     // [2][WARPS][32]
    Mailbox* boxes;                  // [2][WARPS]
    Mbarrier *stage_here, *w3_here;  // [STAGES], [W3S]
    Mbarrier* brought;               // the row of another cluster
    const int* plan;
    const signed char* weights;
    Packet *to, *from;  // [2] of PACKETS each, `apart` packets from one another
    signed char* y;     // of its row 0
    int apart, down;    // down: from a row of y to the next one, in pixels
    int lane, warp, part, rank, rows, block, turn;
    int slot, lap;         // of the turn: its place among STAGES, and whether it was filled an odd number of times
    bool inner, upwards;
    unsigned number;       // of the packets that are sent next
    const uint2* nothing;  // zeros
    int none[2];           // zeros that the compiler does not know
    // By one thread: what expand and depthwise need of the i-th slice, to `slot`; and what project needs.
    __device__ __forceinline__ void bring_stage(int i, int slot, const int* places) const {
        if (i >= TURNS) return;
        const int* const of = places + 4 * i;
        stage_here[slot].expect(16 * of[1]);
        bulk_copy(stages + slot * STAGE, weights + 16 * of[0], 16 * of[1], stage_here[slot]);
    }
    __device__ __forceinline__ void bring_w3() const {
        const int* const of = plan + 4 * turn;
        w3_here[turn % W3S].expect(16 * of[2]);
        bulk_copy(w3s + turn % W3S * W3, weights + 16 * (of[0] + of[1]), 16 * of[2], w3_here[turn % W3S]);
    }
    __device__ __forceinline__ void next_turn() {
        ++turn;
        if (++slot == STAGES) slot = 0, lap ^= 1;
    }
};

// What a warp needs of its 16 hidden channels.
template <int C> struct Weights {
    static constexpr int K_STEPS = C / 32;
    unsigned w1[K_STEPS][4];
    End of_hidden[2], of_dw[2];
    int hidden_begin[2][4], dw_begin[2][4];
    unsigned taps[3][2][2];  // by rows of taps, halves of channels, columns of taps
    bool one_step;           // whether one fma requantizes all of them
    __device__ __forceinline__ void load(const Stage& s) {
        constexpr int ROW1 = row_of(C), OF_ENDS = SLICE * ROW1;
        const signed char* const stage = s.stages + s.slot * STAGE;
        const int lane = s.lane, g = lane / 4, t = lane % 4, channel = s.warp * 16;
        // the channel whose weights this lane's row are
        const int mine = 4 * (lane % 8 / 2) + 2 * (lane / 16) + lane % 2;
#pragma unroll
        for (int k = 0; k < K_STEPS; ++k)
            ldmatrix_x4(w1[k], stage + (channel + mine) * ROW1 + k * 32 + lane / 8 % 2 * 16);
        const int* const ends = (const int*)(stage + OF_ENDS) + channel + 4 * t;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int* const of = ends + 3 * i * SLICE;
            // as ends_of, of floats: of words the compiler made more instructions
            const float4 m = *(const float4*)(of + SLICE), o = *(const float4*)(of + 2 * SLICE);
            End(&end)[2] = i ? of_dw : of_hidden;
            end[0] = {{m.x, m.y}, {o.y, o.x}}, end[1] = {{m.z, m.w}, {o.w, o.z}};
            const int4 four = *(const int4*)of;
            int(&begin)[2][4] = i ? dw_begin : hidden_begin;
#pragma unroll
            for (int e = 0; e < 2; ++e) {  // of one register the compiler makes copies, for each product
                begin[0][2 * e] = four.x + s.none[e], begin[0][2 * e + 1] = four.y + s.none[e];
                begin[1][2 * e] = four.z + s.none[e], begin[1][2 * e + 1] = four.w + s.none[e];
            }
        }
        one_step = ONE_STEP || of_dw[0].multiplier[0] < 1;  // multipliers of two roundings are large
        // a lane beside the diagonal reads zeros; upwards the rows of taps are exchanged
        const bool diagonal = g / 2 == t;
        const uint2* const w2 = (const uint2*)(stage + OF_ENDS + ENDS) + (channel + g / 2 * 4 + g % 2) * 3;
        const uint2* const first = diagonal ? w2 + (s.upwards ? 2 : 0) : s.nothing;
        const int down = !diagonal ? 0 : s.upwards ? -1 : 1, right = diagonal ? 6 : 0;
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int ky = 0; ky < 3; ++ky) {
                const uint2 two = first[ky * down + half * right];
                taps[ky][half][0] = two.x, taps[ky][half][1] = two.y;
            }
    }
};

// 16 hidden channels of four rows, to dw. fresh: the first slice of a block whose x is not yet complete.
template <int C, int STRIDE>
__device__ __forceinline__ void slide(const Stage& s, const Weights<C>& of, unsigned zeros, bool fresh) {
    constexpr int ROW1 = row_of(C), K_STEPS = Weights<C>::K_STEPS;
    const int lane = s.lane, g = lane / 4;
    const signed char* const from = s.x + (lane % 8 + lane / 8 % 2 * 8) * ROW1 + lane / 16 * 16;
    const unsigned columns = g == 0 ? 0xffff0000u : g == 7 ? 0xffffu : ALL;  // those in the image of this lane's two
    const int tiled = s.warp / 8 * DW_TILE + lane % 16 * 128 + (s.warp % 8 ^ lane % 8) * 16;
    signed char* const to = s.dws + s.turn % 2 * DW + (STRIDE == 1 ? tiled : lane % 16 * ROW + s.warp * 16);

    int d[2][2][4], acc[STRIDE == 1 ? ROWS : 1][2][4];
    const auto expand_row = [&](int row) {
#pragma unroll
        for (int k = 0; k < K_STEPS; ++k) {
            unsigned a[4];
            ldmatrix_x4(a, from + row * 16 * ROW1 + k * 32);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const unsigned b[2] = {of.w1[k][2 * half], of.w1[k][2 * half + 1]};
                if (k == 0) mma_s8(d[row % 2][half], a, b, of.hidden_begin[half]);
                else mma_s8(d[row % 2][half], a, b);
            }
        }
    };
    const auto codes_of_row = [&](unsigned(&here)[2], int row) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int(&sum)[4] = d[row % 2][half];
            const End& end = of.of_hidden[half];
            const unsigned four = of.one_step ? codes<false>(sum[0], sum[1], sum[2], sum[3], end, end)
                                              : codes<true>(sum[0], sum[1], sum[2], sum[3], end, end);
            here[half] = (four & columns) | (zeros & ~columns);
        }
    };
    // The row of hidden pixels `row` (−1: the other block's; 4: beside the image, or none's) under all its taps.
    const auto convolve = [&](const unsigned(&here)[2], int row) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const unsigned next = row == ROWS ? zeros : __shfl_sync(ALL, here[half], (lane + 4) % 32);
            const unsigned middle = row == ROWS ? zeros : __byte_perm(here[half], next, 0x5432);
            const unsigned a[4] = {here[half], middle, middle, next};
#pragma unroll
            for (int ky = 0; ky < 3; ++ky) {
                const int r = row + 1 - ky;  // of outputs
                if (r < 0 || r >= ROWS) continue;
                if (row == (r == 0 ? 0 : r - 1)) mma_bytes<true>(acc[r][half], a, of.taps[ky][half], of.dw_begin[half]);
                else mma_bytes<true>(acc[r][half], a, of.taps[ky][half]);
            }
        }
    };
    const auto store_row = [&](int r) {
        unsigned packed[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int(&low)[4] = acc[r][0], (&high)[4] = acc[r][1];
            const int a = low[2 * i], b = low[2 * i + 1], c = high[2 * i], d = high[2 * i + 1];
            packed[i] = of.one_step ? codes<false>(a, b, c, d, of.of_dw[0], of.of_dw[1])
                                    : codes<true>(a, b, c, d, of.of_dw[0], of.of_dw[1]);
        }
        stmatrix_x2(to + r * 16 * 128, packed);
    };
    Mailbox* const box = s.boxes + s.turn % 2 * WARPS + s.warp;
    uint2* const mail = s.mail + (s.turn % 2 * WARPS + s.warp) * 32 + lane;
    // at stride 2 only those who count downwards need the other's row
    const bool gets = STRIDE == 1 || !s.upwards, gives = STRIDE == 1 || s.upwards;
    const auto receive_row = [&] {  // of x, from another cluster
        if (!fresh) return;
        const int i = threadIdx.x, pixel = i / (C / 8), eight = i % (C / 8);
        const bool mine = s.inner && i < IMAGE * C / 8;
        const uint2 data = s.from[(s.number - 1) % 2 * s.apart + (mine ? i : 0)].receive(s.number - 1, mine);
        if (mine) *(uint2*)(s.x + (3 * 16 + (pixel + 1) % 2 * 8 + (pixel + 1) / 2) * ROW1 + eight * 8) = data;
        s.brought->arrive();
        s.brought->wait((s.block - 1) % 2);
    };

    if (lane == 0 && gets) box->expect(MAIL / WARPS);
    if constexpr (STRIDE == 1) {
        unsigned here[2];
        expand_row(0);
        expand_row(1);
        codes_of_row(here, 0);
        box->send(mail, s.rank ^ 1, make_uint2(here[0], here[1]));
        convolve(here, 0);
        expand_row(2);
        codes_of_row(here, 1);
        convolve(here, 1);
        receive_row();
        expand_row(3);
        codes_of_row(here, 2);
        convolve(here, 2);
        store_row(1);
        codes_of_row(here, 3);
        convolve(here, 3);
        store_row(2);
        here[0] = here[1] = zeros;
        convolve(here, 4);
        box->wait(s.turn / 2 % 2);
        store_row(3);
        const uint2 there = *mail;
        here[0] = there.x, here[1] = there.y;
        convolve(here, -1);
        store_row(0);
    } else {
        // outputs of two rows are rows g and g + 8 of a product
        unsigned here[ROWS][2], next[ROWS][2];
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            if (row == 3) receive_row();
            expand_row(row);
            if (row == 0) continue;
            codes_of_row(here[row - 1], row - 1);
            if (row == 1 && gives) box->send(mail, s.rank ^ 1, make_uint2(here[0][0], here[0][1]));
        }
        codes_of_row(here[3], 3);
#pragma unroll
        for (int row = 0; row < ROWS; ++row)
#pragma unroll
            for (int half = 0; half < 2; ++half) next[row][half] = __shfl_sync(ALL, here[row][half], (lane + 4) % 32);
        box->wait(s.turn / 2 % 2, gets);
        const uint2 there = gets ? *mail : make_uint2(zeros, zeros);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const unsigned other = half ? there.y : there.x, other_next = __shfl_sync(ALL, other, (lane + 4) % 32);
#pragma unroll
            for (int ky = 0; ky < 3; ++ky) {
                // rows ky and ky + 2 upwards, ky − 1 and ky + 1 downwards
                const int low = ky == 0 ? 0 : ky - 1, high = ky == 2 ? 2 : ky + 2;
                const unsigned up[4] = {here[ky][half], ky == 2 ? other : here[high][half], next[ky][half],
                                        ky == 2 ? other_next : next[high][half]};
                const unsigned down[4] = {ky == 0 ? other : here[low][half], here[ky + 1][half],
                                          ky == 0 ? other_next : next[low][half], next[ky + 1][half]};
                unsigned a[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) a[i] = s.upwards ? up[i] : down[i];
                if (ky == 0) mma_bytes<true>(acc[0][half], a, of.taps[ky][half], of.dw_begin[half]);
                else mma_bytes<true>(acc[0][half], a, of.taps[ky][half]);
            }
        }
        store_row(0);
    }
}

// `count` blocks of the same shape.
template <int C, int O, int STRIDE, int SMALL, bool ADDS, int HOW, bool FIRST>
__device__ __forceinline__ void blocks(Stage& s, int slices, int count) {
    static_assert(C % 32 == 0 && O % 32 == 0 && O / 32 * ROWS <= WARPS * (STRIDE == 1 ? 1 : 2), "channels");
    static_assert(!ADDS || (C == O && STRIDE == 1), "a residual has the shape of x");
    constexpr int NEAR = STRIDE == 1 ? 8 : 4;  // neighbouring outputs of a thread
    const int lane = s.lane, g = lane / 4, t = lane % 4;
    // at stride 1 a warpgroup has 32 outputs, and each of its warps a row; at stride 2 a warp has 16, of both rows
    const int row = STRIDE == 1 ? s.warp % ROWS : 0, group = STRIDE == 1 ? s.warp / ROWS : s.warp / 2;
    const bool projects = group < O / 32;
    const int first = projects ? group * 32 + 8 * t + (STRIDE == 1 ? 0 : s.warp % 2 * 4) : 0;
#pragma unroll 1
    for (int more = 0; more < count; ++more) {
        const int* const ends = s.plan + 4 * TURNS + s.block * OF_BLOCK;
        const Numbers& numbers = *(const Numbers*)(ends + 2 * MOST_OUT);
        const unsigned zeros = numbers.hidden_zero;
        int acc[NEAR / 2][4];
#pragma unroll
        for (int e = 0; e < NEAR / 2; e += 2) {
            const int4 four = *(const int4*)(ends + first + 2 * e);
            acc[e][0] = acc[e][2] = begin<SMALL>(four.x), acc[e][1] = acc[e][3] = begin<SMALL>(four.y);
            acc[e + 1][0] = acc[e + 1][2] = begin<SMALL>(four.z), acc[e + 1][1] = acc[e + 1][3] = begin<SMALL>(four.w);
        }
        const auto project = [&](int turn) {  // of that slice; at stride 1 only begun
            if (!projects) return;
            s.w3_here[turn % W3S].wait(turn / W3S % 2);
            const signed char* const dw = s.dws + turn % 2 * DW;
            const signed char* const w3 = s.w3s + turn % W3S * W3;
            if constexpr (STRIDE == 1) {
                const WgmmaBytes a(dw), b(w3 + group * 32 * 128);
                wgmma_begin();
#pragma unroll
                for (int k = 0; k < SLICE; k += 32)
                    wgmma_s8<32, true>(acc, a + (k / 128 * DW_TILE + k % 128), b + (k / 128 * O * 128 + k % 128));
                wgmma_commit();
            } else {
#pragma unroll
                for (int k = 0; k < SLICE; k += 32) {
                    unsigned a[4], b[4];
                    ldmatrix_x4(a, dw + lane % 16 * ROW + k + lane / 16 * 16);
                    ldmatrix_x4(b, w3 + (s.warp * 16 + lane / 16 * 8 + lane % 8) * ROW + k + lane / 8 % 2 * 16);
                    mma_bytes<true>(acc[0], a, {b[0], b[1]});
                    mma_bytes<true>(acc[1], a, {b[2], b[3]});
                }
            }
        };
#pragma unroll 1
        for (int slice = 0; slice < slices; ++slice) {
            Weights<C> of;
            s.stage_here[s.slot].wait(s.lap);
            of.load(s);
            __syncthreads();  // x; dw of the slice before; and what is overwritten now has been read
            if (threadIdx.x == THREADS - 1)
                s.bring_stage(s.turn + 2, s.slot == 0 ? STAGES - 1 : s.slot - 1, s.plan), s.bring_w3();
            if (slice > 0) project(s.turn - 1);
            const bool fresh = slice == 0 && s.block > 0;
            slide<C, STRIDE>(s, of, zeros, fresh);
            if constexpr (STRIDE == 1) {
                wgmma_wait<0>();
                async_fence();  // dw is for wgmma
            }
            s.next_turn();
        }
        __syncthreads();
        project(s.turn - 1);
        const bool last = s.block == COUNT - 1;
        signed char* const x = s.x + (row * 16 + g) * row_of(O) + first;  // columns 2g + 1; 8 pixels on are 2g
        float m[NEAR];
        uint2 residual[2] = {};
        const bool there = projects && row < s.rows && g < 7;
        const Output end = numbers.to;
#pragma unroll
        for (int e = 0; e < NEAR; e += 4) {
            const float4 four = *(const float4*)(ends + MOST_OUT + first + e);
            m[e] = four.x, m[e + 1] = four.y, m[e + 2] = four.z, m[e + 3] = four.w;
        }
#pragma unroll
        for (int i = 0; ADDS && there && i < 2; ++i) residual[i] = *(const uint2*)(x + ((1 - i) * 8 + i) * row_of(O));
        if constexpr (STRIDE == 1) wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < 2; ++i) {  // columns 2g, 2g + 1; at stride 2 rows, of columns g
            unsigned words[NEAR / 4];
#pragma unroll
            for (int e = 0; e < NEAR / 4; ++e) {
                const int(&a)[4] = acc[2 * e], (&b)[4] = acc[2 * e + 1];
                const int sum[4] = {a[2 * i], a[2 * i + 1], b[2 * i], b[2 * i + 1]};
                words[e] = requantize_four<SMALL>(sum, m[4 * e], m[4 * e + 1], m[4 * e + 2], m[4 * e + 3],
                                                  end.zero_point, ADDS ? -128 : end.low, ADDS ? 127 : end.high);
            }
            if constexpr (STRIDE == 2) {
                if (projects && g < 7 && (i == 0 || s.part != 2))
                    *(unsigned*)(s.y + (i * s.down + g) * O + first) = words[0];
                continue;
            } else {
                if constexpr (ADDS) {
                    words[0] = add_words<(SMALL >= 2), 4, HOW, FIRST>(words[0], residual[i].x, end);
                    words[1] = add_words<(SMALL >= 2), 4, HOW, FIRST>(words[1], residual[i].y, end);
                }
                if (!there) continue;
                const int column = 2 * g + i;
                const uint2 out = make_uint2(words[0], words[1]);
                if (last) *(uint2*)(s.y + (row * s.down + column) * O + first) = out;
                else {
                    *(uint2*)(x + ((1 - i) * 8 + i) * row_of(O)) = out;
                    if (s.inner && row == 2)
                        s.to[s.number % 2 * s.apart + (column * O + first) / 8].send(s.number, out);
                }
            }
        }
        ++s.block, ++s.number;
    }
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS, 1)
    stage_int8(const signed char* __restrict__ x, const signed char* __restrict__ weights, const int* __restrict__ plan,
               Packet* packets, unsigned* counters, signed char* __restrict__ y, int N) {
    extern __shared__ __align__(1024) signed char shared[];
    Stage s;
    s.dws = shared;                   // [2][TILES][ROWS][16 pixels][128]
    s.w3s = s.dws + 2 * DW;           // [W3S][TILES][outputs][128]
    s.stages = s.w3s + W3S * W3;      // [STAGES]
    s.x = s.stages + STAGES * STAGE;  // [ROWS][2][8 pixels]
    s.mail = (uint2*)(s.x + X_SIZE);
    int* const plan_here = (int*)((signed char*)s.mail + 2 * MAIL);
    s.plan = plan_here;
    s.stage_here = (Mbarrier*)(plan_here + PLAN);
    s.w3_here = s.stage_here + STAGES;
    s.brought = s.w3_here + W3S;
    s.boxes = (Mailbox*)(s.brought + 1);
    uint2* const nothing = (uint2*)(s.boxes + 2 * WARPS);
    s.nothing = nothing;
    s.weights = weights;
    const int image = blockIdx.x / 4, part = blockIdx.x % 4;
    s.lane = threadIdx.x % 32, s.warp = __shfl_sync(ALL, threadIdx.x / 32, 0);
    s.part = part, s.rank = part % 2, s.inner = part == 1 || part == 2, s.upwards = s.rank == 0;
    s.rows = s.inner ? 3 : 4, s.block = s.turn = s.slot = s.lap = 0;
    const int first = image * IMAGE + (part == 0 ? 3 : part == 1 ? 4 : part == 2 ? 9 : 10);
    const int down = s.upwards ? -IMAGE : IMAGE;
    s.down = down / LAST_STRIDE;
    s.y = y + (LAST_STRIDE == 1 ? first * IMAGE : (image * 7 + part + 1 + part / 2) * 7) * LAST;
    s.to = packets + (image * 2 + 1 - part / 2) * PACKETS, s.from = packets + (image * 2 + part / 2) * PACKETS;
    s.apart = N * 2 * PACKETS;

    s.none[0] = N >> 30, s.none[1] = N >> 31;
    if (threadIdx.x == 0) {
        *nothing = make_uint2(0, 0);
        for (int i = 0; i < STAGES + W3S; ++i) s.stage_here[i].init(1);
        s.brought->init(THREADS);
        mbarriers_ready();
        for (int i = 0; i < 2 * WARPS; ++i) s.boxes[i].open();
        s.bring_stage(0, 0, plan), s.bring_stage(1, 1, plan);
    }
    for (int i = threadIdx.x; i < PLAN / 4; i += THREADS) cp_async_16((uint4*)plan_here + i, plan + 4 * i);
    for (int i = threadIdx.x; i < X_SIZE / 16; i += THREADS) ((uint4*)s.x)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();

    wait_for_inputs();  // until here nothing depends on the kernel before

    s.number = counters[blockIdx.x] + 1;  // of no packet that is there
    constexpr int PIECES = CHANNELS / 16;
    for (int i = threadIdx.x; i < ROWS * IMAGE * PIECES; i += THREADS) {
        const int row = i / (IMAGE * PIECES), pixel = i / PIECES % IMAGE, piece = i % PIECES;
        cp_async_16((uint4*)(s.x + (row * 16 + (pixel + 1) % 2 * 8 + (pixel + 1) / 2) * row_of(CHANNELS) + piece * 16),
                    x + ((first * IMAGE + row * down) + pixel) * CHANNELS + piece * 16);
    }
    cp_async_commit();
    cluster_started();  // before mail is sent
    cp_async_wait<0>();
    __syncthreads();
    launch_dependents();

#define BLOCK(C, O, STRIDE, SMALL, ADDS, HOW, FIRST, slices, count) \
    blocks<C, O, STRIDE, SMALL, ADDS, HOW, FIRST>(s, slices, count);
    BLOCKS
    if (threadIdx.x == 0) counters[blockIdx.x] = s.number - 1;
}
