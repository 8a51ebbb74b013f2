// sparse.h - a convolution that skips zeros of its input: one shape, every size a constant, all arrays NHWC.
//
//   by_pixels<S>(shared, x, packed, bias, residual, y)      skips pixels: vectors of 32 channels that are all zero
//   by_ballot<S>(…)                                         skips elements
//   by_tiles<S>(shared, x, weight, bias, residual, y)       skips slices of tensor cores' work: 32 channels of a tile
//   by_channels<S>(shared, x, packed, bias, residual, y)    depthwise: skips 32 channels of a pixel under one tap
//
// S: a struct of compile-time numbers, see sparse.py. With S::SKIP false the same kernel skips nothing: what differs is
// the gain of skipping. NaN is not zero, -0.0 is. A zero that is skipped adds nothing, also where the weight is
// infinite or NaN; one that is not (in by_pixels a zero beside another channel that is none) makes NaN of them, as a
// dense convolution does.
//
// What is spent where:  by_pixels    FMA: R·V a lane for each weight; L1: V weights for R rows; shared memory: x once,
//                                    sums twice for 32 channels. A skipped pixel saves all of that but the reading of x
//                       by_ballot    L1: V weights for each V FMA, four times what the FMA units could take: that is
//                                    what an element costs, in exchange for none of it if the element is zero
//                       by_tiles     tensor cores; a skipped slice saves its weights (L2), its mma, one of two barriers
//                       by_channels  nothing but memory: skipping saves the weights, which are in L1 anyway
#pragma once
#include "fused/arithmetic.h"

// What follows from S. A block computes PX output pixels × BO output channels of one group.
template <class S> struct Sizes {
    static constexpr int CG = S::C / S::GROUPS, OG = S::O / S::GROUPS, TAPS = S::KH * S::KW;
    static constexpr int OG_PADDED = ceil_div(OG, 8) * 8;  // of a row of packed weights
    static constexpr int PX = S::TILE_H * S::TILE_W, PIXELS = S::B * S::OUT_H * S::OUT_W;
    static constexpr int TILES_H = ceil_div(S::OUT_H, S::TILE_H), TILES_W = ceil_div(S::OUT_W, S::TILE_W);
    static constexpr int TILES_O = ceil_div(OG, S::BO), CHUNKS = ceil_div(CG, 32), STEPS = TAPS * CHUNKS;
    static constexpr unsigned ALL = 0xffffffffu;
};

// The i-th output pixel of a tile, range [0, B·OUT_H·OUT_W), or -1 if there is none. TILE_H 1: pixels in a row, across
// images.
template <class S> __device__ __forceinline__ int pixel_of(int tile, int i) {
    using Z = Sizes<S>;
    if (i >= Z::PX) return -1;
    if (S::TILE_H == 1) {
        const int p = tile * Z::PX + i;
        return p < Z::PIXELS ? p : -1;
    }
    const int oy = tile / Z::TILES_W % Z::TILES_H * S::TILE_H + i / S::TILE_W,
              ox = tile % Z::TILES_W * S::TILE_W + i % S::TILE_W;
    return oy < S::OUT_H && ox < S::OUT_W ? (tile / (Z::TILES_W * Z::TILES_H) * S::OUT_H + oy) * S::OUT_W + ox : -1;
}

// Where the window of an output pixel begins: x lies under it at (image + row·W + column)·C.
template <class S> struct Corner {
    int image, row, column;
    __device__ __forceinline__ explicit Corner(int p)
        : image(p / (S::OUT_H * S::OUT_W) * S::H * S::W),
          row(p < 0 ? -(1 << 30) : p / S::OUT_W % S::OUT_H * S::STRIDE_H - S::TOP),
          column(p % S::OUT_W * S::STRIDE_W - S::LEFT) {}
    // The first channel of the pixel under a tap; -1 in the padding.
    __device__ __forceinline__ int under(int tap) const {
        const int y = row + tap / S::KW, x = column + tap % S::KW;
        return (unsigned)y < (unsigned)S::H && (unsigned)x < (unsigned)S::W ? (image + y * S::W + x) * S::C : -1;
    }
};

// y = clamp(sum + bias + residual)
template <class S> __device__ __forceinline__ void finish(float sum, int p, int channel, const typename S::T* bias,
                                                          const typename S::T* residual, typename S::T* y) {
    const int at = p * S::O + channel;
    if (bias) sum += (float)bias[channel];
    if (residual) sum += (float)residual[at];
    y[at] = (typename S::T)bounded(sum, S::low(), S::high());
}

// A lane's V sums of a row: one in every 32, so that a warp's accesses touch 32 different banks.
template <int V> __device__ __forceinline__ void take(float (&v)[V], const float* row, int lane) {
#pragma unroll
    for (int e = 0; e < V; ++e) v[e] = row[e * 32 + lane];
}
template <int V> __device__ __forceinline__ void put(float* row, const float (&v)[V], int lane) {
#pragma unroll
    for (int e = 0; e < V; ++e) row[e * 32 + lane] = v[e];
}
// The place in a row of the sum of channel o: what take and put call [e][lane] is channel lane·V + e.
template <int V> __device__ __forceinline__ int place_of(int o) { return o % V * 32 + o / V; }

// The sums of SPLIT warps, each of its part of the products: sums[warp][row][BO], so many rows apart.
template <class S> __device__ __forceinline__ void finish_all(const float* sums, int apart, int tile, int group, int o0,
                                                              const typename S::T* bias, const typename S::T* residual,
                                                              typename S::T* y) {
    using Z = Sizes<S>;
    __syncthreads();
    for (int i = threadIdx.x; i < Z::PX * S::BO; i += 32 * S::SPLIT) {
        const int o = o0 + i % S::BO, p = pixel_of<S>(tile, i / S::BO);
        if (o >= Z::OG || p < 0) continue;
        float sum = 0;
#pragma unroll
        for (int part = 0; part < S::SPLIT; ++part)
            sum += sums[part * apart + i / S::BO * S::BO + place_of<S::V>(i % S::BO)];
        finish<S>(sum, p, group * Z::OG + o, bias, residual, y);
    }
}

// Which tile of pixels, which group, which of its channels a block takes; blocks of the same pixels run side by side.
template <class S> struct Place {
    int o0, group, tile;
    __device__ __forceinline__ Place()
        : o0(blockIdx.x % Sizes<S>::TILES_O * S::BO),
          group(blockIdx.x / Sizes<S>::TILES_O % S::GROUPS),
          tile(blockIdx.x / (Sizes<S>::TILES_O * S::GROUPS)) {}
};

// V neighbouring weights of a row; zeros behind its end.
template <class S, class T> __device__ __forceinline__ void weights(float (&w)[S::V], const T* row, int o) {
    if (Sizes<S>::OG_PADDED % S::BO == 0 || o < Sizes<S>::OG_PADDED) load(w, row + o);
    else
        for (int e = 0; e < S::V; ++e) w[e] = 0;
}

// ---- Compressed lists of pixels: under one tap, 32 channels at a time, a warp lists the pixels that are not all zero
// and multiplies those alone, R of them by the same weights. Lists differ from tap to tap, so the sums wait in shared
// memory.

// sums of N listed pixels, from the list's first on, += their channels · weights. rows: [PX][32], limit of the 32 are
// there.
template <class S, int N> __device__ __forceinline__ void multiply_rows(float* sums, const float* rows,
                                                                        const typename S::T* packed, int listed,
                                                                        int first, int limit, int o) {
    using Z = Sizes<S>;
    const int lane = threadIdx.x % 32;
    float acc[N][S::V];
    int to[N];
#pragma unroll
    for (int r = 0; r < N; ++r) {
        to[r] = __shfl_sync(Z::ALL, listed, first + r) * S::BO;
        take(acc[r], sums + to[r], lane);
    }
#pragma unroll 2
    for (int k = 0; k < limit; k += 4) {
        float4 v[N];
#pragma unroll
        for (int r = 0; r < N; ++r) v[r] = *(const float4*)(rows + (first + r) * 32 + k);  // one address: a broadcast
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            if (Z::CG % 4 && k + e >= limit) break;
            float w[S::V];
            weights<S>(w, packed + (k + e) * Z::OG_PADDED, o);
#pragma unroll
            for (int r = 0; r < N; ++r)
#pragma unroll
                for (int j = 0; j < S::V; ++j)
                    acc[r][j] = fmaf(e == 0 ? v[r].x : e == 1 ? v[r].y : e == 2 ? v[r].z : v[r].w, w[j], acc[r][j]);
        }
    }
#pragma unroll
    for (int r = 0; r < N; ++r) put(sums + to[r], acc[r], lane);
}

template <class S> __device__ __forceinline__ void by_pixels(void* shared, const typename S::T* x,
                                                             const typename S::T* packed, const typename S::T* bias,
                                                             const typename S::T* residual, typename S::T* y) {
    using Z = Sizes<S>;
    constexpr int R = S::ROWS, SUMS = Z::PX * S::BO;
    const Place<S> place;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, o = place.o0 + lane * S::V;
    float* const sums = (float*)shared + warp * SUMS;                            // [PX][BO]
    float* const rows = (float*)shared + S::SPLIT * SUMS + warp * (Z::PX * 32);  // [PX][32]: of the listed pixels
    for (int i = lane; i < SUMS; i += 32) sums[i] = 0;
    const Corner<S> corner(pixel_of<S>(place.tile, lane));  // a lane a pixel
    __syncwarp();
    const int last = Z::STEPS * (warp + 1) / S::SPLIT;
#pragma unroll 1
    for (int step = Z::STEPS * warp / S::SPLIT; step < last; ++step) {
        const int tap = step / Z::CHUNKS, c0 = step % Z::CHUNKS * 32;
        const int from = corner.under(tap);
        int count = 0, listed = 0;  // listed: of lane i the i-th pixel of the list
#pragma unroll
        for (int i0 = 0; i0 < Z::PX; i0 += 8) {
            float v[8];
            int at[8];
#pragma unroll
            for (int i = 0; i < 8; ++i) {  // 8 loads on their way
                at[i] = __shfl_sync(Z::ALL, from, i0 + i);
                v[i] = at[i] >= 0 && (Z::CG % 32 == 0 || c0 + lane < Z::CG)
                           ? (float)x[at[i] + place.group * Z::CG + c0 + lane]
                           : 0.0f;
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const bool live = S::SKIP ? __ballot_sync(Z::ALL, v[i] != 0.0f) != 0 : at[i] >= 0;
                if (!live) continue;
                rows[count * 32 + lane] = v[i];
                if (lane == count) listed = i0 + i;
                ++count;
            }
        }
        __syncwarp();
        const typename S::T* const row_of_weights =
            packed + ((place.group * Z::TAPS + tap) * Z::CG + c0) * Z::OG_PADDED;
        const int limit = Z::CG % 32 ? smaller(32, Z::CG - c0) : 32;
        int first = 0;
#pragma unroll 1
        for (; first + R <= count; first += R) multiply_rows<S, R>(sums, rows, row_of_weights, listed, first, limit, o);
#pragma unroll 1
        for (; first + 2 <= count; first += 2) multiply_rows<S, 2>(sums, rows, row_of_weights, listed, first, limit, o);
        if (first < count) multiply_rows<S, 1>(sums, rows, row_of_weights, listed, first, limit, o);
        __syncwarp();  // the next list is written where slow lanes may still read
    }
    finish_all<S>((const float*)shared, SUMS, place.tile, place.group, place.o0, bias, residual, y);
}

// ---- Ballot over channels: a lane reads a channel of a pixel, the warp votes, and only what is set is multiplied: the
// value goes to all lanes by a shuffle, each has V output channels. Four at a time, so that their weights are under way
// together.
template <class S> __device__ __forceinline__ void by_ballot(void* shared, const typename S::T* x,
                                                             const typename S::T* packed, const typename S::T* bias,
                                                             const typename S::T* residual, typename S::T* y) {
    using Z = Sizes<S>;
    constexpr int V = S::V, R = S::ROWS, SUMS = Z::PX * S::BO;
    const Place<S> place;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, o = place.o0 + lane * V;
    float* const sums = (float*)shared + warp * SUMS;  // [PX][BO]
    const Corner<S> corner(pixel_of<S>(place.tile, lane));
    const int begin = Z::STEPS * warp / S::SPLIT, end = Z::STEPS * (warp + 1) / S::SPLIT;
#pragma unroll 1
    for (int first = 0; first < Z::PX; first += R) {
        float acc[R][V] = {}, ahead[R];
        auto fetch = [&](int step) {  // a step further than what is multiplied
            const int from = corner.under(step / Z::CHUNKS), c = step % Z::CHUNKS * 32 + lane;
#pragma unroll
            for (int r = 0; r < R; ++r) {
                const int at = __shfl_sync(Z::ALL, from, first + r);
                ahead[r] = at >= 0 && (Z::CG % 32 == 0 || c < Z::CG) ? (float)x[at + place.group * Z::CG + c] : 0.0f;
            }
        };
        if (begin < end) fetch(begin);
#pragma unroll 1
        for (int step = begin; step < end; ++step) {
            float v[R];
#pragma unroll
            for (int r = 0; r < R; ++r) v[r] = ahead[r];
            if (step + 1 < end) fetch(step + 1);
            const typename S::T* const row_of_weights =
                packed + ((place.group * Z::TAPS + step / Z::CHUNKS) * Z::CG + step % Z::CHUNKS * 32) * Z::OG_PADDED;
#pragma unroll
            for (int r = 0; r < R; ++r) {
                unsigned set = __ballot_sync(Z::ALL, v[r] != 0.0f);
#pragma unroll 1
                while (set) {
                    float value[4], w[4][V];
#pragma unroll
                    for (int u = 0; u < 4; ++u) {
                        const int channel = __ffs((int)set) - 1;  // -1: no more
                        value[u] = __shfl_sync(Z::ALL, v[r], channel & 31);
                        if (channel >= 0) weights<S>(w[u], row_of_weights + channel * Z::OG_PADDED, o);
                        else {
                            value[u] = 0;
                            for (int j = 0; j < V; ++j) w[u][j] = 0;
                        }
                        set &= set - 1;
                    }
#pragma unroll
                    for (int u = 0; u < 4; ++u)
#pragma unroll
                        for (int j = 0; j < V; ++j) acc[r][j] = fmaf(value[u], w[u][j], acc[r][j]);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < R; ++r) put(sums + (first + r) * S::BO, acc[r], lane);
    }
    finish_all<S>((const float*)shared, SUMS, place.tile, place.group, place.o0, bias, residual, y);
}

// ---- Tiles: an implicit product on tensor cores, 32 channels under a tap at a time. x comes through registers, where
// all threads look at it: only a slice with something in it goes to shared memory, has its weights fetched and is
// multiplied.
template <class S> __device__ __forceinline__ void by_tiles(void* shared, const typename S::T* x,
                                                            const typename S::T* weight, const typename S::T* bias,
                                                            const typename S::T* residual, typename S::T* y) {
    using T = typename S::T;
    using Z = Sizes<S>;
    using A = typename Default<T>::Arithmetic;
    constexpr bool HALVES = sizeof(T) == 2;
    constexpr bool WHOLE = Z::CG % (16 / (int)sizeof(T)) == 0;  // rows come in pieces of 16 bytes
    constexpr int E = 16 / sizeof(T), BM = Z::PX, BN = S::BO, BK = 32, PIECES = BK / E, PITCH = BK + E;
    constexpr int STAGES = S::STAGES, STAGE = (BM + BN) * PITCH, THREADS = 32 * S::SPLIT;
    constexpr int WARPS_M = S::ROWS, WARPS_N = S::SPLIT / WARPS_M, MT = BM / 16 / WARPS_M, NT = BN / 16 / WARPS_N;
    constexpr int XS = ceil_div(BM * PIECES, THREADS), WS = ceil_div(BN * PIECES, THREADS);  // pieces of a thread
    static_assert(MT * 16 * WARPS_M == BM && NT * 16 * WARPS_N == BN && THREADS % PIECES == 0, "tile");
    const Place<S> place;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, piece = threadIdx.x % PIECES * E,
              row = threadIdx.x / PIECES;
    const int warp_m = warp / WARPS_N * MT * 16, warp_n = warp % WARPS_N * NT * 16;
    T* const stages = (T*)shared;
    int offsets[XS];  // of the pixels that this thread brings: where the one under the tap begins, −1 outside
    uint4 held[XS];   // their channels: a slice ahead

    auto fetch_x = [&](int step) {
        const int tap = step / Z::CHUNKS, c = step % Z::CHUNKS * BK + piece;
#pragma unroll
        for (int i = 0; i < XS; ++i) {
            const int p = row + i * (THREADS / PIECES);
            if (step % Z::CHUNKS == 0) offsets[i] = p < BM ? Corner<S>(pixel_of<S>(place.tile, p)).under(tap) : -1;
            held[i] = make_uint4(0, 0, 0, 0);
            if (offsets[i] < 0 || c >= Z::CG) continue;
            const T* const from = x + offsets[i] + place.group * Z::CG + c;
            if constexpr (WHOLE) held[i] = __ldg((const uint4*)from);
            else {
                unsigned bits[4] = {};
#pragma unroll
                for (int e = 0; e < E; ++e)
                    if (c + e < Z::CG)
                        bits[e * (int)sizeof(T) / 4] |=
                            HALVES ? (unsigned)*(const unsigned short*)(from + e) << e % 2 * 16
                                   : *(const unsigned*)(from + e);
                held[i] = make_uint4(bits[0], bits[1], bits[2], bits[3]);
            }
        }
    };
    auto fetch_weights = [&](int step, T* to) {
        const int tap = step / Z::CHUNKS, c = step % Z::CHUNKS * BK + piece;
#pragma unroll
        for (int i = 0; i < WS; ++i) {
            const int o = row + i * (THREADS / PIECES);
            if (o >= BN) break;
            const bool inside = place.o0 + o < Z::OG && c < Z::CG;
            const T* const from = weight + ((place.group * Z::OG + place.o0 + o) * Z::TAPS + tap) * Z::CG + c;
            if constexpr (WHOLE) cp_async_16(to + o * PITCH + piece, from, inside);
            else
                for (int e = 0; e < E; ++e) to[o * PITCH + piece + e] = inside && c + e < Z::CG ? from[e] : (T)0.0f;
        }
    };
    float acc[MT][NT][2][4] = {};
    auto multiply = [&](const T* stage) {
#pragma unroll
        for (int k = 0; k < BK; k += 2 * E) {
            typename A::Rows a[MT];
#pragma unroll
            for (int i = 0; i < MT; ++i) {
                a[i].load(stage + (warp_m + i * 16 + lane % 16) * PITCH + k + lane / 16 * E);
                a[i].split();
            }
#pragma unroll
            for (int j = 0; j < NT; ++j) {
                typename A::Columns b;
                b.load(stage + (BM + warp_n + j * 16 + lane / 16 * 8 + lane % 8) * PITCH + k + lane / 8 % 2 * E);
#pragma unroll
                for (int i = 0; i < MT; ++i) b.multiply(acc[i][j], a[i]);
            }
        }
    };

    int filled = 0, used = 0;  // slices put into the stages, and taken out
    fetch_x(0);
#pragma unroll 1
    for (int step = 0; step < Z::STEPS; ++step) {
        unsigned any = 0;
#pragma unroll
        for (int i = 0; i < XS; ++i) any |= held[i].x | held[i].y | held[i].z | held[i].w;
        any &= HALVES ? 0x7fff7fffu : 0x7fffffffu;  // without the signs: -0.0 is zero
        const bool live = __syncthreads_or(any != 0 || !S::SKIP);  // and nobody reads the stage before any more
        if (live) {
            T* const stage = stages + filled % STAGES * STAGE;
#pragma unroll
            for (int i = 0; i < XS; ++i)
                if (row + i * (THREADS / PIECES) < BM)
                    *(uint4*)(stage + (row + i * (THREADS / PIECES)) * PITCH + piece) = held[i];
            fetch_weights(step, stage + BM * PITCH);
            cp_async_commit();
            ++filled;
        }
        if (step + 1 < Z::STEPS) fetch_x(step + 1);
        if (live && filled - used == STAGES) {
            cp_async_wait<STAGES - 1>();
            __syncthreads();
            multiply(stages + used++ % STAGES * STAGE);
        }
    }
    cp_async_wait<0>();
    __syncthreads();
    while (used < filled) multiply(stages + used++ % STAGES * STAGE);

    __syncthreads();
    float* const sums = (float*)shared;  // [BM][BN + 8]: so that neighbouring threads write neighbouring channels
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < MT; ++i)
#pragma unroll
        for (int j = 0; j < NT; ++j)
#pragma unroll
            for (int e = 0; e < 8; e += 2) {
                float* const to =
                    sums + (warp_m + i * 16 + e / 2 % 2 * 8 + g) * (BN + 8) + warp_n + j * 16 + e / 4 * 8 + 2 * t;
                *(float2*)to = make_float2(acc[i][j][e / 4][e % 4], acc[i][j][e / 4][e % 4 + 1]);
            }
    __syncthreads();
    for (int i = threadIdx.x; i < BM * BN; i += THREADS) {
        const int o = place.o0 + i % BN, p = pixel_of<S>(place.tile, i / BN);
        if (o < Z::OG && p >= 0)
            finish<S>(sums[i / BN * (BN + 8) + i % BN], p, place.group * Z::OG + o, bias, residual, y);
    }
}

// ---- Depthwise: a lane a channel, a warp a pixel after the other. packed: (TAPS, C).
template <class S> __device__ __forceinline__ void by_channels(void*, const typename S::T* x,
                                                               const typename S::T* packed, const typename S::T* bias,
                                                               const typename S::T* residual, typename S::T* y) {
    using Z = Sizes<S>;
    constexpr int TILES_C = ceil_div(S::C, 32);
    const int lane = threadIdx.x % 32, c = blockIdx.x % TILES_C * 32 + lane, tile = blockIdx.x / TILES_C;
    for (int i = threadIdx.x / 32; i < Z::PX; i += S::SPLIT) {
        const int p = pixel_of<S>(tile, i);
        if (p < 0) continue;
        const Corner<S> corner(p);
        float sum = 0;
#pragma unroll 3
        for (int tap = 0; tap < Z::TAPS; ++tap) {
            const int from = corner.under(tap);
            if (from < 0) continue;  // of all lanes
            const float v = c < S::C ? (float)x[from + c] : 0.0f;
            if (S::SKIP && __ballot_sync(Z::ALL, v != 0.0f) == 0) continue;
            if (c < S::C) sum = fmaf(v, (float)packed[tap * S::C + c], sum);
        }
        if (c < S::C) finish<S>(sum, p, c, bias, residual, y);
    }
}
