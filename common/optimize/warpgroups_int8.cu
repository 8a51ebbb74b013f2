// warpgroups_int8 - MobileNetV2's block in int8 with Hopper's wgmma: a thread block takes a whole image of 14 columns.
// requires: sm_90
//
//   x (N, H, 14, C), residual and y (N, OUT_H, OUT_W, O): NHWC, H at most 14. slices, pairs: weights as they lie in
//   shared memory, for each 64 hidden channels and for each 128 (blocks_int8.py, Slid.groups); bias, of inputs that are
//   codes + 128, and multiplier: of project. The bits are those of inverted_residual_int8.
//
//            64 hidden channels, a slice                                             who
//     x ──wgmma──► sums ──► codes, hidden                                            a warp: rows of pixels, all 64
//                               ──mma──► codes, dw                                   a warp: 8 channels, all rows
//                                            ──wgmma──► sums of y                    a warpgroup: half of the rows
//
//   mma holds up a scheduler for 6 cycles, and hardly overlaps with other instructions: it reads ten registers. wgmma
//   reads shared memory instead, and runs by itself. So only depthwise is left to mma, as products with diagonal
//   matrices. (By wgmma, of pieces of `hidden` that overlap, they took longer on an H200; and 16 warps, each with less
//   to do, took a fifth longer than 8.) Between two barriers
//
//     project of slice s − 1 and expand of s + 2 run, depthwise of s is computed, hidden of s + 1 is made
//
//   hidden is [8 channels][row][16 pixels][8]: a row has a pixel of padding on the left and on the right. Rows of
//   depthwise's products are pairs of pixels m and m + 1, under which lie three taps (q0 … q3 are the pixels of both):
//
//                        q0   q1   q2   q3
//     output 2m          t0   t1   t2    0       stride 2: output m
//     output 2m + 1       0   t0   t1   t2
//
//   A product has 8 of them in a row of the image, and 8 in the next row of outputs.
//
//   Requantization is one fma and half an instruction, as in alone_int8.cu; channels that take more lie together.
//
// Weights of the slices and pairs that follow, and x of the next image, come meanwhile.
#include "block_int8.h"
#include "bulk.h"
#include "wgmma_bytes.h"

constexpr int C = CHANNELS, O = OUTPUTS, H = HEIGHT, W = WIDTH, ST = STRIDE, THREADS = 256;
constexpr int OUT_H = (H - 1) / ST + 1, OUT_W = W / ST, SLICES = HIDDEN / 64, PAIRS = ceil_div(SLICES, 2);
// rows of outputs, two by two; rows of hidden pixels under them, of which the first is padding
constexpr int TWOS = ceil_div(OUT_H, 2), UNDER = (2 * TWOS - 1) * ST + 3;
// wgmma's rows are 64: of expand 4 rows of an image, of project 4 products of depthwise; each warpgroup's. Sides:
// outputs 2m, and 2m + 1
constexpr int X_MINE = ceil_div(H, 8), SIDES = ST == 1 ? 2 : 1, Y_TILES = ceil_div(TWOS * SIDES, 4);
constexpr int GROUPS_M = Y_TILES > 1 ? 2 : 1, GROUPS_N = 2 / GROUPS_M, Y_MINE = ceil_div(Y_TILES, GROUPS_M);
constexpr int OUTPUTS_MINE = O / GROUPS_N;
// bytes of shared memory. Of a slice: expand [64][128]; begin, multiplier, offset [3][64]. Of a pair: project [O][128];
// for each 8 channels taps [3 rows][2][8][4 words]; then begin [4][4], multiplier, offset [8]
constexpr int TILE = 64 * 128, X = 2 * X_MINE * TILE, DW = Y_MINE * GROUPS_M * TILE, KEPT = 3;
constexpr int OF_SLICE = TILE + 1024, TAPS_0 = O * 128, ENDS_0 = TAPS_0 + 16 * 768, OF_PAIR = ENDS_0 + 16 * 128;
// of 8 hidden channels; 64 bytes more, so that lanes write to all banks
constexpr int ROW = 128, PLANE = UNDER * ROW + 64;
static_assert(C % 32 == 0 && C <= 128 && HIDDEN % 64 == 0 && O % (16 * GROUPS_N) == 0, "channels");
static_assert(SLICES > 2, "x of the next image comes during the first slices");
static_assert(W == 14 && H <= 14 && TILE_H == OUT_H && TILE_W == OUT_W && IMAGES == 1 && WARPS == 8, "tile");

// Where 16 bytes of a row of 128 lie, as wgmma reads them.
__device__ __forceinline__ signed char* at(signed char* tile, int row, int piece) {
    return tile + row * 128 + (piece ^ row % 8) * 16;
}

// How neighbouring channels are requantized to codes + 128: four, and two. Offsets of two neighbours lie the other way
// round, see alone_int8.cu. Multipliers of two roundings are large, those of one are tiny.
template <bool EXACT> __device__ __forceinline__ int code_at(int sum, float multiplier, float offset) {
    return code_of<EXACT, ODD>(sum, multiplier, offset);
}
struct Four {
    float4 multiplier, offset;
    template <bool EXACT> __device__ __forceinline__ unsigned codes(int a, int b, int c, int d) const {
        return pack_unsigned(code_at<EXACT>(a, multiplier.x, offset.y), code_at<EXACT>(b, multiplier.y, offset.x),
                             code_at<EXACT>(c, multiplier.z, offset.w), code_at<EXACT>(d, multiplier.w, offset.z));
    }
    __device__ __forceinline__ unsigned operator()(int a, int b, int c, int d) const {
        return ONE_STEP || multiplier.x < 1 ? codes<false>(a, b, c, d) : codes<true>(a, b, c, d);
    }
};
struct Two {
    float2 multiplier, offset;
    template <bool EXACT> __device__ __forceinline__ unsigned codes(int a, int b) const {
        return pack_unsigned(code_at<EXACT>(a, multiplier.x, offset.y), code_at<EXACT>(b, multiplier.y, offset.x));
    }
    __device__ __forceinline__ unsigned short operator()(int a, int b) const {
        return (unsigned short)(ONE_STEP || multiplier.x < 1 ? codes<false>(a, b) : codes<true>(a, b));
    }
};

// x of an image on its way: rows of 16 pixels, of which those beside the image are not written.
__device__ __forceinline__ void fetch(const signed char* x, int image, signed char* to) {
    constexpr int PIECES = C / 16, OF_ROW = W * PIECES;
    for (int i = threadIdx.x; i < H * OF_ROW; i += THREADS) {
        const int row = i / OF_ROW, rest = i - row * OF_ROW, pixel = rest / PIECES, piece = rest - pixel * PIECES;
        cp_async_16(at(to, row * 16 + 1 + pixel, piece), x + ((image * H + row) * W + pixel) * C + piece * 16);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    warpgroups_int8(const signed char* __restrict__ x, const signed char* __restrict__ slices,
                    const signed char* __restrict__ pairs, const int* __restrict__ bias,
                    const float* __restrict__ multiplier, const signed char* __restrict__ residual,
                    signed char* __restrict__ y, int N, int hidden_zero, int zero_point, int low, int high,
                    float scale_a, float scale_b, float shift, int offset) {
    extern __shared__ __align__(1024) signed char shared[];
    signed char* const xs = shared;                             // [2][rows of 16 pixels][128 channels]
    signed char* const dws = xs + 2 * X;                        // [rows of products][128 channels, of two slices]
    signed char* const of_slices = dws + DW;                    // [KEPT]
    signed char* const of_pairs = of_slices + KEPT * OF_SLICE;  // [2]
    signed char* const hiddens = of_pairs + 2 * OF_PAIR;        // [2][8][UNDER][16 pixels][8]
    uint4* const nothing = (uint4*)(hiddens + 16 * PLANE);
    Mbarrier* const slice_here = (Mbarrier*)(nothing + 1);      // [KEPT]
    Mbarrier* const pair_here = slice_here + KEPT;              // [2]

    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
    const int group = warp / 4, in_group = warp % 4, m_group = GROUPS_M == 2 ? group : 0, n_group = group - m_group;
    const unsigned zeros = (hidden_zero & 255) * 0x01010101u;
    const Output to = {zero_point, low, high, scale_a, scale_b, shift, offset};
    const int step = gridDim.x, mine = (N - (int)blockIdx.x - 1) / step + 1, count = mine * SLICES;
    const auto bring_slice = [&](int i) {  // the i-th of this block
        slice_here[i % KEPT].expect(OF_SLICE);
        bulk_copy(of_slices + i % KEPT * OF_SLICE, slices + i % SLICES * OF_SLICE, OF_SLICE, slice_here[i % KEPT]);
    };
    const auto bring_pair = [&](int i) {
        pair_here[i % 2].expect(OF_PAIR);
        bulk_copy(of_pairs + i % 2 * OF_PAIR, pairs + i % PAIRS * OF_PAIR, OF_PAIR, pair_here[i % 2]);
    };
    if (threadIdx.x == 0) {
        for (int i = 0; i < KEPT; ++i) slice_here[i].init(1);
        for (int i = 0; i < 2; ++i) pair_here[i].init(1);
        mbarriers_ready();
        *nothing = make_uint4(0, 0, 0, 0);
    }
    // what no pixel is ever written to
    for (int i = threadIdx.x; i < (2 * X + DW) / 16; i += THREADS) ((uint4*)shared)[i] = make_uint4(0, 0, 0, 0);
    for (int i = threadIdx.x; i < PLANE; i += THREADS) ((uint4*)hiddens)[i] = make_uint4(zeros, zeros, zeros, zeros);
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 0; i < KEPT; ++i) bring_slice(i);
        bring_pair(0);
    }
    wait_for_inputs();  // until here nothing depends on the kernel before
    fetch(x, blockIdx.x, xs);
    cp_async_commit();
    launch_dependents();
    cp_async_wait<0>();
    async_fence();
    __syncthreads();

    int sums[X_MINE][8][4], of_y[Y_MINE][OUTPUTS_MINE / 8][4];
    // The products of slice i with x at `from`.
    const auto expand = [&](int i, const signed char* from) {
        slice_here[i % KEPT].wait(i / KEPT % 2);
        const signed char* const w = of_slices + i % KEPT * OF_SLICE;
        const int4* const begin = (const int4*)(w + TILE) + t;
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const int4 four = begin[4 * q];
#pragma unroll
            for (int tile = 0; tile < X_MINE; ++tile)
#pragma unroll
                for (int e = 0; e < 4; e += 2) {
                    sums[tile][2 * q][e] = four.x, sums[tile][2 * q][e + 1] = four.y;
                    sums[tile][2 * q + 1][e] = four.z, sums[tile][2 * q + 1][e + 1] = four.w;
                }
        }
        wgmma_begin();
#pragma unroll
        for (int tile = 0; tile < X_MINE; ++tile)
#pragma unroll
            for (int k = 0; k < C; k += 32)
                wgmma_s8<64>(sums[tile], from + (group * X_MINE + tile) * TILE + k, w + k);
    };
    // Slice i's sums become hidden pixels. How channels are requantized is read before those before are stored.
    const auto put_hidden = [&](int i) {
        const float4* const ends = (const float4*)(of_slices + i % KEPT * OF_SLICE + TILE + 256) + t;
        signed char* const hidden = hiddens + i % 2 * (8 * PLANE) + t / 2 * PLANE + g * 8 + t % 2 * 4;
        Four codes = {ends[0], ends[16]};
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            unsigned words[X_MINE][2];
#pragma unroll
            for (int k = 0; k < X_MINE; ++k)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const int(&a)[4] = sums[k][2 * q], (&b)[4] = sums[k][2 * q + 1];
                    words[k][e] = codes(a[2 * e], a[2 * e + 1], b[2 * e], b[2 * e + 1]);
                }
            if (q < 3) codes = {ends[4 * q + 4], ends[4 * q + 20]};
#pragma unroll
            for (int k = 0; k < X_MINE; ++k) {
                const int row = (group * X_MINE + k) * 4 + in_group;
                if (row < H && g > 0) *(unsigned*)(hidden + 2 * q * PLANE + (row + 1) * ROW) = words[k][0];
                if (row < H && g < 7) *(unsigned*)(hidden + 2 * q * PLANE + (row + 1) * ROW + 64) = words[k][1];
            }
        }
    };
    expand(0, xs);
    wgmma_commit();
    wgmma_wait<0>();
    put_hidden(0);
    expand(1, xs);
    wgmma_commit();
    __syncthreads();

    for (int turn = 0, image = blockIdx.x; image < N; image += step, ++turn) {
        signed char* const x_next = xs + (turn + 1) % 2 * X;
        if (image + step < N) fetch(x, image + step, x_next);
        cp_async_commit();
#pragma unroll
        for (int j = 0; j < OUTPUTS_MINE / 8; j += 2) {
            const int4 four = __ldg((const int4*)(bias + n_group * OUTPUTS_MINE + j * 8) + t);
            const int begins[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int i = 0; i < Y_MINE * 8; ++i)
                of_y[i / 8][j + i / 4 % 2][i % 4] = begin<SMALL_PROJECT>(begins[i / 4 % 2 * 2 + i % 2]);
        }
        const auto project = [&](int s) {  // of slice s of this image
            const signed char* const pair = of_pairs + (turn * PAIRS + s / 2) % 2 * OF_PAIR;
            const int half = (turn * SLICES + s) % 2;
            wgmma_begin();
#pragma unroll
            for (int k = 0; k < Y_MINE; ++k)
#pragma unroll
                for (int c = 0; c < 64; c += 32)
                    wgmma_s8<OUTPUTS_MINE, true>(of_y[k], dws + (m_group * Y_MINE + k) * TILE + half * 64 + c,
                                                 pair + n_group * OUTPUTS_MINE * 128 + s % 2 * 64 + c);
        };
#pragma unroll 1
        for (int s = 0; s < SLICES; ++s) {
            const int i = turn * SLICES + s, p = turn * PAIRS + s / 2;
            if (threadIdx.x == 0) {  // what was there before is not needed any more
                if (s % 2 == 1 && p + 1 < mine * PAIRS) bring_pair(p + 1);
                if (i > 0 && i + 2 < count) bring_slice(i + 2);
            }
            if (s > 0) project(s - 1);
            wgmma_commit();  // if of nothing

            // depthwise
            pair_here[p % 2].wait(p / 2 % 2);
            const signed char* const pair = of_pairs + p % 2 * OF_PAIR;
            const int plane = s % 2 * 8 + warp;  // of the pair; and of dw, whose halves take turns over all images
            const int of_dw = i % 2 * 8 + warp;
            {
                const bool on_diagonal = g / 4 == t % 2;
                const uint4* const taps =
                    on_diagonal ? (const uint4*)(pair + TAPS_0 + plane * 768) + t / 2 * 8 + g : nothing;
                uint4 under[3];
#pragma unroll
                for (int ky = 0; ky < 3; ++ky) under[ky] = taps[on_diagonal ? ky * 16 : 0];
                const signed char* const end = pair + ENDS_0 + plane * 128;
                const int4 four = ((const int4*)end)[t];
                const int begin[4] = {four.x, four.y, four.z, four.w};
                const Two codes = {((const float2*)(end + 64))[t], ((const float2*)(end + 96))[t]};
                const signed char* const from = hiddens + (i % 2 * 8 + warp) * PLANE + lane / 8 % 2 * (ST * ROW) +
                                                (lane % 8 + lane / 16) * 16;
                unsigned a[UNDER][4];
                int acc[2][SIDES][4];
                const auto load = [&](int u) {
#pragma unroll
                    for (int ky = ST == 1 && u > 0; ky < 3; ++ky)
                        ldmatrix_x4(a[2 * u * ST + ky], from + (2 * u * ST + ky) * ROW);
                };
                load(0);
#pragma unroll
                for (int u = 0; u <= TWOS; ++u) {  // these rows are multiplied, the next come, and those before go
                    if (u + 1 < TWOS) load(u + 1);
#pragma unroll
                    for (int ky = 0; u < TWOS && ky < 3; ++ky)
#pragma unroll
                        for (int side = 0; side < SIDES; ++side) {
                            const unsigned b[2] = {side ? under[ky].z : under[ky].x, side ? under[ky].w : under[ky].y};
                            int(&d)[4] = acc[u % 2][side];
                            if (ky == 0) mma_bytes<true>(d, a[2 * u * ST + ky], b, begin);
                            else mma_bytes<true>(d, a[2 * u * ST + ky], b);
                        }
#pragma unroll
                    for (int side = 0; u > 0 && side < SIDES; ++side) {
                        const int(&d)[4] = acc[(u - 1) % 2][side];
                        const int row = ((u - 1) * SIDES + side) * 16 + g;
                        signed char* const there = at(dws, row, of_dw / 2) + of_dw % 2 * 8;
                        *(unsigned short*)(there + 2 * t) = codes(d[0], d[1]);
                        *(unsigned short*)(there + 8 * 128 + 2 * t) = codes(d[2], d[3]);
                    }
                }
            }

            wgmma_wait<1>();  // project runs, expand of the next slice is done
            if (i + 1 < count) put_hidden(i + 1);
            if (i + 2 < count) expand(i + 2, s + 2 < SLICES ? xs + turn % 2 * X : x_next);
            wgmma_commit();
            wgmma_wait<1>();  // expand runs, project is done
            if (s == SLICES - 3) cp_async_wait<0>();  // x of the next image
            async_fence();
            __syncthreads();
        }
        if (SLICES % 2 == 1 && threadIdx.x == 0 && (turn + 1) * PAIRS < mine * PAIRS) bring_pair((turn + 1) * PAIRS);
        project(SLICES - 1);
        wgmma_commit();

        // outputs: a lane has four neighbours of each 16
        float scale[OUTPUTS_MINE / 16][4];
        unsigned more[OUTPUTS_MINE / 16][Y_MINE][2];
        int place[Y_MINE][2];
#pragma unroll
        for (int k = 0; k < 2 * Y_MINE; ++k) {
            const int product = (m_group * Y_MINE + k / 2) * 4 + in_group, side = product % SIDES;
            const int row = product / SIDES * 2 + k % 2, column = ST == 1 ? 2 * g + side : g;
            const int first = ((image * OUT_H + row) * OUT_W + column) * O + n_group * OUTPUTS_MINE + t * 4;
            place[k / 2][k % 2] = row < OUT_H && column < OUT_W ? first : -1;
        }
#pragma unroll
        for (int j = 0; j < OUTPUTS_MINE / 16; ++j) {
            get_row<true>(scale[j], multiplier + n_group * OUTPUTS_MINE + j * 16 + t * 4, 4);
#pragma unroll
            for (int k = 0; k < 2 * Y_MINE; ++k) {
                const int p = place[k / 2][k % 2];
                more[j][k / 2][k % 2] = RESIDUAL && p >= 0 ? __ldg((const unsigned*)(residual + p + j * 16)) : 0;
            }
        }
        wgmma_wait<0>();
        const int least = RESIDUAL ? -128 : low, most = RESIDUAL ? 127 : high;
#pragma unroll
        for (int j = 0; j < OUTPUTS_MINE / 16; ++j)
#pragma unroll
            for (int k = 0; k < Y_MINE; ++k)
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int(&a)[4] = of_y[k][2 * j], (&b)[4] = of_y[k][2 * j + 1];
                    const int four[4] = {a[2 * i], a[2 * i + 1], b[2 * i], b[2 * i + 1]};
                    const unsigned word = requantize_four<SMALL_PROJECT>(four, scale[j][0], scale[j][1], scale[j][2],
                                                                         scale[j][3], zero_point, least, most);
                    if (place[k][i] >= 0)
                        *(unsigned*)(y + place[k][i] + j * 16) =
                            RESIDUAL ? add_words<(SMALL_PROJECT >= 2)>(word, more[j][k][i], to) : word;
                }
    }
}
