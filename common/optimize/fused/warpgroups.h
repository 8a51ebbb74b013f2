// warpgroups.h - a whole inverted-residual block on one SM with Hopper's wgmma and bulk copies: halves, sm_90a.
//
//   Warpgroups<S> block{shared, x_map, expand_map, project_map, w};   S: a struct of numbers, which generate.py writes
//   block.run(bounds, y, N, rank, first, step)      tiles first, first + step, …; rank: in the cluster that shares one
//
// What block.h does with mma.sync, a warp at a time, two or four warpgroups do here together, and none of them waits
// for a product that it has asked for: while the warps convolve a slice of 64 hidden channels, tensor cores expand the
// next one and project the one before.
//
//     slice                 s - 1          s            s + 1
//     wgmma, by itself      project        ·            expand
//     warps                 ·              depthwise    ·            mma.sync with diagonal matrices: diagonal.h
//     bulk copies                                       weights of s + 1 and s + 2
//
// One barrier a slice: hidden channels and dw lie twice in shared memory. A tile is TILE_H rows of IMAGES images, all
// of their columns: its x is rows of a matrix, one bulk copy for each 64 channels. With SPLIT > 1 a cluster shares the
// tile and has no other: each block takes some of the slices, and thread i of each block sends its sums to thread i of
// that one which adds them up. A residual is x.
//
// What is spent where:
//     tensor cores   64·WM pixels, though PIXELS_IN are needed: 256 for 196; depthwise 8 times too much
//     shared memory  wgmma reads x and dw WN times, weights WM times; hidden channels three times
//     issue slots    sums that become halves: 3 instructions for two
#pragma once
#include "bulk.h"
#include "cluster.h"
#include "fused/diagonal.h"
#include "grid.h"
#include "wgmma.h"

struct Bounds {  // of expand, depthwise, project
    float low[3], high[3];
};
struct Vectors {  // parameters that are no matrices; a bias may be null
    const __half *expand_bias, *depthwise, *depthwise_bias, *project_bias;
};

template <class S> struct WarpgroupSizes {
    static constexpr int SLICE = 64, ROW = 64;  // hidden channels of a slice; halves in a row of 128 bytes
    static constexpr int GROUPS = S::THREADS / 128, WARPS = S::THREADS / 32, ST = S::STRIDE;
    static constexpr int OUT_H = (S::H - 1) / ST + 1, OUT_W = (S::W - 1) / ST + 1, TILES_H = ceil_div(OUT_H, S::TILE_H);
    static constexpr bool WHOLE = S::TILE_H == OUT_H;
    static constexpr int REAL_H = WHOLE ? S::H : (S::TILE_H - 1) * ST + 3;  // rows of x
    static constexpr int IN_IMAGE = REAL_H * S::W, PIXELS_IN = S::IMAGES * IN_IMAGE;
    static constexpr int K_TILES = ceil_div(S::C, ROW), SLICES = S::HIDDEN / SLICE, PER = ceil_div(SLICES, S::SPLIT);

    // depthwise: STRIP rows of 16 columns of pixels, twice 8 neighbours, and 16 channels are a warp's item. Rows of dw
    // are PITCH apart, a multiple of 8, so that the pieces of a column are exchanged alike in all rows.
    static constexpr int PITCH = ceil_div(OUT_W, 8) * 8, EIGHTS = PITCH / 8, STRIPS = ceil_div(S::TILE_H, S::STRIP);
    static constexpr int UNITS = S::IMAGES * STRIPS * EIGHTS, ITEMS = SLICE / 16 * ceil_div(UNITS, 2);
    static constexpr int AGAIN = STRIPS * S::STRIP - S::TILE_H;  // rows of the last strip that the one before it stores
    static constexpr int ROWS_OUT = S::IMAGES * S::TILE_H * PITCH;
    static constexpr int HID_H = (S::TILE_H - 1) * ST + 3, HID_W = S::W + 2;
    static constexpr int HID_PIXELS = S::IMAGES * HID_H * HID_W + (PITCH - OUT_W) * ST;  // the last are read in vain
    // Pieces of 16 bytes are exchanged so that those of 8 pixels that are read at once lie in all banks.
    __host__ __device__ static constexpr unsigned exchanged(unsigned x, unsigned piece) { return piece ^ x / ST % 8; }

    // warpgroups one below the other along the pixels, 64 each, the others side by side along the channels
    __host__ __device__ static constexpr int below(int pixels) { return pixels <= 64 ? 1 : pixels <= 128 ? 2 : 4; }
    static constexpr int WM = below(PIXELS_IN), WN = GROUPS / WM, NE = SLICE / WN;
    static constexpr int WM3 = below(ROWS_OUT), WN3 = GROUPS / WM3, NP = S::O / WN3;

    // shared memory, in halves; matrices first, whose rows of 8 begin at multiples of 1,024 bytes
    static constexpr int X_TILE = ceil_div(PIXELS_IN, 8) * 8 * ROW, DW = ROWS_OUT * ROW;
    static constexpr int W1 = K_TILES * SLICE * ROW, W3 = S::O * ROW, HIDDEN = HID_PIXELS * ROW;
    static constexpr int W1_0 = K_TILES * X_TILE, W3_0 = W1_0 + 2 * W1, DW_0 = W3_0 + 2 * W3, HIDDEN_0 = DW_0 + 2 * DW;
    static constexpr int TAPS_0 = HIDDEN_0 + 2 * HIDDEN, TAPS = 9 * SLICE;
    static constexpr int B2_0 = TAPS_0 + 2 * TAPS, B1_0 = B2_0 + 2 * SLICE, B3_0 = B1_0 + 2 * SLICE;
    static constexpr int SPARE_0 = B3_0 + S::O;  // 16 bytes for each thread, what nobody reads
    static constexpr int BARRIERS_0 = SPARE_0 + 8 * S::THREADS, SUMS_0 = BARRIERS_0 + 40;
    static constexpr int PARTS = NP / 8, PART = ceil_div(PARTS, S::SPLIT);  // float4s of a thread; of them, one block's
    static constexpr int SUMS = S::SPLIT > 1 ? S::SPLIT * PART * S::THREADS * 16 : 0, MOST = 227 * 1024;  // bytes
    static constexpr bool OVER = 2 * SUMS_0 + SUMS > MOST;  // sums are sent where everything else was
    static_assert(!OVER || SUMS <= 2 * SPARE_0, "shared memory");
    static constexpr int O_BOX = S::O <= 256 ? S::O : S::O / 2;  // rows of a bulk copy
};

template <class S> struct Warpgroups {
    using G = WarpgroupSizes<S>;
    static constexpr int ROW = G::ROW, SLICE = G::SLICE;

    struct Barriers {
        Mbarrier x, w1[2], w3[2], taps[2];
        Mailbox mail;
    };

    __half* shared;
    const TensorMap &x_map, &expand_map, &project_map;
    Vectors w;
    int first, count, total;  // slices of this block, and of all its tiles

    __device__ __forceinline__ Barriers& bar() const { return *(Barriers*)(shared + G::BARRIERS_0); }
    __device__ __forceinline__ __half* spare() const { return shared + G::SPARE_0 + 8 * threadIdx.x; }

    // Bulk copies of the weights of slice q, counted over all tiles. One thread asks for them.
    __device__ __forceinline__ void bring_w1(int q) const {
        if (q >= total) return;
        const int stage = q & 1, slice = first + q % count;
        bar().w1[stage].expect(G::W1 * 2 + (w.expand_bias ? 2 * SLICE : 0));
        for (int k = 0; k < G::K_TILES; ++k)
            bulk_copy_tile(shared + G::W1_0 + stage * G::W1 + k * (SLICE * ROW), expand_map, k * ROW, slice * SLICE,
                           bar().w1[stage]);
        if (w.expand_bias)
            bulk_copy(shared + G::B1_0 + stage * SLICE, w.expand_bias + slice * SLICE, 2 * SLICE, bar().w1[stage]);
    }
    __device__ __forceinline__ void bring_w3(int q) const {
        if (q >= total) return;
        const int stage = q & 1, slice = first + q % count;
        bar().w3[stage].expect(G::W3 * 2);
        for (int o = 0; o < S::O; o += G::O_BOX)
            bulk_copy_tile(shared + G::W3_0 + stage * G::W3 + o * ROW, project_map, slice * SLICE, o, bar().w3[stage]);
    }
    __device__ __forceinline__ void bring_taps(int q) const {
        if (q >= total) return;
        const int stage = q & 1, slice = first + q % count;
        bar().taps[stage].expect(G::TAPS * 2 + (w.depthwise_bias ? 2 * SLICE : 0));
        bulk_copy(shared + G::TAPS_0 + stage * G::TAPS, w.depthwise + slice * G::TAPS, 2 * G::TAPS, bar().taps[stage]);
        if (w.depthwise_bias)
            bulk_copy(shared + G::B2_0 + stage * SLICE, w.depthwise_bias + slice * SLICE, 2 * SLICE, bar().taps[stage]);
    }
    __device__ __forceinline__ void bring_x(int tile) const {
        const int in_image = G::WHOLE ? 0 : tile % G::TILES_H * S::TILE_H * G::ST - 1;  // a row above it
        const int row = tile / G::TILES_H * S::IMAGES * S::H + in_image;
        bar().x.expect(G::K_TILES * G::PIXELS_IN * 128);
        for (int k = 0; k < G::K_TILES; ++k)
            bulk_copy_tile(shared + k * G::X_TILE, x_map, k * ROW, row * S::W, bar().x);
    }

    // The depthwise convolution of slice q, on tensor cores: a tap is a product with a diagonal matrix (diagonal.h).
    __device__ __forceinline__ void convolve(int q, const Bounds& bounds, unsigned warp, unsigned lane) const {
        const unsigned stage = q & 1, g = lane / 4, t = lane % 4;
#pragma unroll 1
        for (unsigned item = warp; item < G::ITEMS; item += G::WARPS) {
            const unsigned pieces = item % (SLICE / 16) * 2, unit = item / (SLICE / 16) * 2 + lane % 16 / 8;
            const unsigned x = unit % G::EIGHTS * 8 + lane % 8, strip = unit / G::EIGHTS % G::STRIPS;
            const bool there = G::UNITS % 2 == 0 || unit < G::UNITS, is_last = strip == G::STRIPS - 1;
            const unsigned image = there ? unit / (G::EIGHTS * G::STRIPS) : 0;
            const unsigned y0 = strip * S::STRIP - (is_last ? G::AGAIN : 0);
            unsigned diagonal[2][9];
            float bias[2][4];
            load_diagonals(diagonal, g, t, shared + G::TAPS_0 + stage * G::TAPS + pieces * 72);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const __half* const two = shared + G::B2_0 + stage * SLICE + (pieces + half) * 8 + 2 * t;
                unpack(bias[half][0], bias[half][1], *(const unsigned*)two);
                bias[half][2] = bias[half][0], bias[half][3] = bias[half][1];
            }
            const __half* const from = shared + G::HIDDEN_0 + stage * G::HIDDEN +
                                       ((image * G::HID_H + y0 * G::ST) * G::HID_W + x * G::ST) * ROW;
            const auto tap = [&](unsigned kx, unsigned piece) {
                return from + kx * ROW + G::exchanged(x * G::ST + kx, piece) * 8;
            };
            // a product takes 8 channels under two taps side by side; under the third, 8 channels at a time
            const __half* const two_taps[2] = {tap(lane / 16, pieces), tap(lane / 16, pieces + 1)};
            const __half* const third_tap = tap(2, pieces + lane / 16);
            __half* const to = shared + G::DW_0 + stage * G::DW + ((image * S::TILE_H + y0) * G::PITCH + x) * ROW +
                               (pieces + lane / 16 ^ x % 8) * 8;
            float acc[S::STRIP][2][4];
#pragma unroll
            for (int y = 0; y < (S::STRIP - 1) * G::ST + 3; ++y) {
                unsigned two[2][4], third[4];
                ldmatrix_x4(two[0], two_taps[0] + y * G::HID_W * ROW);
                ldmatrix_x4(two[1], two_taps[1] + y * G::HID_W * ROW);
                ldmatrix_x4(third, third_tap + y * G::HID_W * ROW);
                add_row<G::ST>(acc, y, two, third, diagonal, bias);
                const int r = (y - 2) / G::ST;
                if (y >= 2 && r * G::ST == y - 2) {
                    const bool stored = there && !(r < G::AGAIN && is_last);
                    store_bounded(stored ? to + r * G::PITCH * ROW : spare(), acc[r], bounds.low[1],
                                  bounds.high[1]);
                }
            }
        }
    }

    __device__ __forceinline__ void run(const Bounds& bounds, __half* y, int N, unsigned rank, int tile, int step) {
        const unsigned thread = threadIdx.x, lane = thread % 32, g = lane / 4, t = lane % 4;
        const unsigned warp = __shfl_sync(0xffffffffu, thread / 32, 0);  // a compiler sees: the same for all lanes
        const unsigned group = warp / 4, in_group = warp % 4 * 16;
        const unsigned wm = group % G::WM, wn = group / G::WM, wm3 = group % G::WM3, wn3 = group / G::WM3;
        const int tiles = ceil_div(N, S::IMAGES) * G::TILES_H;
        first = rank * G::PER, count = smaller(G::PER, G::SLICES - first);
        total = tile < tiles ? ((tiles - 1 - tile) / step + 1) * count : 0;
        if (thread == 0) {
            bar().x.init(1);
            for (int i = 0; i < 2; ++i) bar().w1[i].init(1), bar().w3[i].init(1), bar().taps[i].init(1);
            mbarriers_ready();
            if (S::SPLIT > 1) bar().mail.open();
        }
        for (unsigned i = thread; i < 2 * G::HIDDEN / 8; i += S::THREADS)  // around the images it stays so
            store_16(shared + G::HIDDEN_0 + 8 * i, make_uint4(0, 0, 0, 0));
        if (thread < 4 * SLICE / 8) store_16(shared + G::B2_0 + 8 * thread, make_uint4(0, 0, 0, 0));
        if (thread < S::O / 8) {  // the first block of a cluster adds what is added once
            const bool added = w.project_bias && rank == 0;
            store_16(shared + G::B3_0 + 8 * thread,
                     added ? *(const uint4*)(w.project_bias + 8 * thread) : make_uint4(0, 0, 0, 0));
        }
        async_fence();
        __syncthreads();
        if (S::SPLIT > 1) cluster_started();
        if (thread == 0) bring_w1(0), bring_taps(0), bring_w1(1), bring_w3(0), bring_taps(1), bring_w3(1);
        wait_for_inputs();
        if (thread == 0 && total > 0) bring_x(tile);
        launch_dependents();

        // where this lane's row of 16 hidden channels goes, for stmatrix; negative: nowhere
        const unsigned row = wm * 64 + in_group + lane % 16, to_x = row % S::W + 1;
        const int to = row >= G::PIXELS_IN ? -1 : (int)(
            ((row / G::IN_IMAGE * G::HID_H + row % G::IN_IMAGE / S::W + G::WHOLE) * G::HID_W + to_x) * ROW);

        for (int turn = 0, q = 0; tile < tiles; tile += step, ++turn) {
            const int n0 = tile / G::TILES_H * S::IMAGES, y_first = tile % G::TILES_H * S::TILE_H;
            float acc[G::PARTS][4], hid[G::NE / 8][4];
            // The sums of y begin as biases, and as x if it is added; those of slice q as biases.
            const auto begin_sums = [&] {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const unsigned at = wm3 * 64 + in_group + g + 8 * i, x = at % G::PITCH;
                    const bool inside = at < G::ROWS_OUT && x < S::W;
                    const unsigned pixel = S::ADDS_X && inside ? (at / G::PITCH + !G::WHOLE) * S::W + x : 0;
#pragma unroll
                    for (int j = 0; j < G::PARTS; ++j) {
                        const unsigned channel = wn3 * G::NP + 8 * j + 2 * t, piece = channel % ROW / 8 ^ pixel % 8;
                        unpack(acc[j][2 * i], acc[j][2 * i + 1], *(const unsigned*)(shared + G::B3_0 + channel));
                        if (S::ADDS_X && (S::SPLIT == 1 || rank == 0)) {
                            const __half* const from = shared + channel / ROW * G::X_TILE + pixel * ROW + piece * 8;
                            float more[2];
                            unpack(more[0], more[1], *(const unsigned*)(from + 2 * t));
                            acc[j][2 * i] += more[0], acc[j][2 * i + 1] += more[1];
                        }
                    }
                }
            };
            const auto begin_hidden = [&](int q) {
                const __half* const bias = shared + G::B1_0 + (q & 1) * SLICE + wn * G::NE + 2 * t;
#pragma unroll
                for (int j = 0; j < G::NE / 8; ++j) {
                    unpack(hid[j][0], hid[j][1], *(const unsigned*)(bias + 8 * j));
                    hid[j][2] = hid[j][0], hid[j][3] = hid[j][1];
                }
            };
            // Products of slice q; wanted: whether anybody reads their sums.
            const auto expand = [&](int q, bool wanted) {
                const WgmmaRows a(shared + wm * 64 * ROW);
                const WgmmaRows b(shared + G::W1_0 + (q & 1) * G::W1 + wn * G::NE * ROW);
#pragma unroll
                for (int k = 0; k < S::C; k += 16)
                    wgmma<G::NE>(hid, a + (k / ROW * G::X_TILE + k % ROW), b + (k / ROW * (SLICE * ROW) + k % ROW),
                                 wanted ? G::PIXELS_IN - wm * 64 : 0);
            };
            const auto project = [&](int q, bool wanted) {
                const WgmmaRows a(shared + G::DW_0 + (q & 1) * G::DW + wm3 * 64 * ROW);
                const WgmmaRows b(shared + G::W3_0 + (q & 1) * G::W3 + wn3 * G::NP * ROW);
#pragma unroll
                for (int k = 0; k < SLICE; k += 16)
                    wgmma<G::NP>(acc, a + k, b + k, wanted ? G::ROWS_OUT - wm3 * 64 : 0);
            };
            const auto put_hidden = [&](int q) {
                __half* const hidden = shared + G::HIDDEN_0 + (q & 1) * G::HIDDEN;
#pragma unroll
                for (int j = 0; j < G::NE / 8; j += 2) {
                    const unsigned piece = wn * (G::NE / 8) + j + lane / 16;
                    unsigned bits[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const float(&two)[4] = hid[j + i / 2];
                        bits[i] = bounded_halves(two[i % 2 * 2], two[i % 2 * 2 + 1], bounds.low[0], bounds.high[0]);
                        if constexpr (!G::WHOLE) {  // rows above and below the image are zero
                            const unsigned in_tile = (wm * 64 + in_group + g + i % 2 * 8) / S::W;
                            if (y_first * G::ST + in_tile - 1u >= (unsigned)S::H) bits[i] = 0;
                        }
                    }
                    stmatrix_x4(to < 0 ? spare() : hidden + to + G::exchanged(to_x, piece) * 8, bits);
                }
            };
            bar().x.wait(turn & 1);
            bar().w1[q & 1].wait(q / 2 & 1);
            begin_hidden(q);
            wgmma_begin();
            expand(q, true);
            wgmma_commit();
#pragma unroll 1
            for (int s = 0; s < count; ++s, ++q) {
                wgmma_wait<0>();
                if (s == 1) begin_sums();
                put_hidden(q);
                async_fence();    // of dw
                __syncthreads();  // hidden channels of this slice are there, and dw of the one before
                if (thread == 0) {
                    bring_w1(q + 2);
                    if (q > 0) bring_taps(q + 1);
                    if (q > 1) bring_w3(q);
                }
                // Always both, so that ptxas sees that nothing touches sums on their way: before the second slice what
                // project adds is thrown away, and so is what expand makes after the last one.
                if (q + 1 < total) bar().w1[(q + 1) & 1].wait((q + 1) / 2 & 1);  // with the bias that sums begin as
                if (s > 0) bar().w3[(q - 1) & 1].wait((q - 1) / 2 & 1);
                begin_hidden(q + 1);
                wgmma_begin();
                project(q - 1, s > 0);
                expand(q + 1, s + 1 < count);
                wgmma_commit();
                bar().taps[q & 1].wait(q / 2 & 1);
                convolve(q, bounds, warp, lane);
            }
            async_fence();
            wgmma_wait<0>();
            if (count == 1) begin_sums();
            __syncthreads();
            if (thread == 0 && tile + step < tiles) bring_x(tile + step);
            bar().w3[(q - 1) & 1].wait((q - 1) / 2 & 1);
            wgmma_begin();
            project(q - 1, true);
            wgmma_commit();
            wgmma_wait<0>();

            const auto place_out = [&](unsigned at) {  // of a row of the sums: its first channel in y; -1: nowhere
                const unsigned x = at % G::PITCH, all = at / G::PITCH, image = S::IMAGES == 1 ? 0 : all / S::TILE_H;
                const int y_out = y_first + all - image * S::TILE_H, n = n0 + image;
                const bool inside = at < G::ROWS_OUT && x < G::OUT_W && (S::IMAGES == 1 || n < N) &&
                                    (G::OUT_H % S::TILE_H == 0 || y_out < G::OUT_H);
                return inside ? (int)(((n * G::OUT_H + y_out) * G::OUT_W + x) * S::O + wn3 * G::NP) : -1;
            };
            int places[2];
            for (int i = 0; i < 2; ++i) places[i] = place_out(wm3 * 64 + in_group + g + 8 * i);
            const auto halves = [&](const float(&sums)[4], int i) {
                return bounded_halves(sums[2 * i], sums[2 * i + 1], bounds.low[2], bounds.high[2]);
            };
            const auto write = [&](int j, const float(&sums)[4]) {
#pragma unroll
                for (int i = 0; i < 2; ++i)
                    if (places[i] >= 0) *(unsigned*)(y + places[i] + 8 * j + 2 * t) = halves(sums, i);
            };
            if constexpr (S::SPLIT == 1) {
#pragma unroll
                for (int j = 0; j + 1 < G::PARTS; j += 2)
#pragma unroll
                    for (int i = 0; i < 2; ++i) {  // two lanes exchange, so that each has 4 neighbours
                        const unsigned first = halves(acc[j], i), second = halves(acc[j + 1], i);
                        const unsigned other = __shfl_xor_sync(0xffffffffu, t % 2 ? first : second, 1);
                        const uint2 four = t % 2 ? make_uint2(other, second) : make_uint2(first, other);
                        if (places[i] >= 0) *(uint2*)(y + places[i] + 8 * (j + t % 2) + t / 2 * 4) = four;
                    }
                if (G::PARTS % 2) write(G::PARTS - 1, acc[G::PARTS - 1]);
            } else {
                float4* const sums = (float4*)(shared + (G::OVER ? 0 : G::SUMS_0)) + thread;
                if (G::OVER) cluster_sync();  // when no block of the cluster reads it any more
#pragma unroll
                for (int j = 0; j < G::PARTS; ++j) {
                    float4* const to = sums + (rank * G::PART + j % G::PART) * S::THREADS;
                    const float4 four = make_float4(acc[j][0], acc[j][1], acc[j][2], acc[j][3]);
                    if (j / G::PART == rank) *to = four;
                    else bar().mail.send(to, j / G::PART, four);
                }
                const int part = larger(0, smaller(G::PART, G::PARTS - (int)rank * G::PART));
                if (thread == 0) bar().mail.expect((S::SPLIT - 1) * part * S::THREADS * 16);
                bar().mail.wait(0);
#pragma unroll
                for (int j = 0; j < G::PART; ++j)
                    if (j < part) {
                        float v[4] = {};
#pragma unroll
                        for (int r = 0; r < S::SPLIT; ++r) {
                            const float4 more = sums[(r * G::PART + j) * S::THREADS];
                            v[0] += more.x, v[1] += more.y, v[2] += more.z, v[3] += more.w;
                        }
                        write(rank * G::PART + j, v);
                    }
            }
        }
    }
};
