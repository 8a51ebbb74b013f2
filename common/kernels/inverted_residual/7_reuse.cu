// inverted_residual, rung 7 "reuse": what a thread has in registers, and a block in shared memory, is not read again.
// requires: sm_80
//
//   depthwise: a thread walks down STRIP outputs of a column, for two neighbouring channels. A row of hidden that it
//              reads is the third of one window, the second of the next and the first of the one after that.
//   residual:  where it is x itself (ADDS_X), its numbers have been in the x tile since the beginning.
//
// Moves   hidden from shared memory to registers: 3·(STRIP + 2) loads of two channels for STRIP outputs at stride 1,
//         where rung 6 took 9·STRIP loads of one. A residual that is x: nothing from global memory any more.
// Gains   the depthwise has little arithmetic per number: fewer loads from shared memory are less time. Both bounds
//         together are two instructions now, and not four; a NaN still stays (clamp, in ptx.h).
// Costs   registers for 18 taps and 2·STRIP sums; fewer threads have work if a slice is small.
#include "fused.h"
#include "mma_rows.h"
#include "tile.h"

constexpr int E = 16 / sizeof(scalar_t), K_STEP = 2 * E;  // elements in 16 bytes; those of a row that an mma takes
constexpr int WARPS = THREADS / 32;
constexpr int IN_H = (TILE_H - 1) * STRIDE + 3, IN_W = (TILE_W - 1) * STRIDE + 3;  // pixels under a tile, see tile.h
constexpr int PIXELS = TILE_H * TILE_W, PIXELS_IN = IN_H * IN_W;
constexpr int M_IN = (PIXELS_IN + 15) / 16, M_OUT = PIXELS / 16;  // tiles of 16 pixels
constexpr int SUMS = (M_OUT * (O_PADDED / 16) - 1) / WARPS + 1;   // 16×16 outputs each, of a warp
constexpr int ROW = SLICE + E;                                    // of hidden, dw and project's weights
static_assert(PIXELS % 16 == 0 && SLICE % 16 == 0 && O_PADDED % 16 == 0, "mma takes 16 rows, and here 16 columns");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
inverted_residual(const scalar_t* __restrict__ x, const scalar_t* __restrict__ expand,
                  const scalar_t* __restrict__ expand_bias, const scalar_t* __restrict__ depthwise,
                  const scalar_t* __restrict__ depthwise_bias, const scalar_t* __restrict__ project,
                  const scalar_t* __restrict__ project_bias, const scalar_t* __restrict__ residual,
                  scalar_t* __restrict__ y, scalar_t* scratch, int N, int H, int W, int C, int HIDDEN, int O,
                  float low1, float high1, float low2, float high2, float low3, float high3) {
    extern __shared__ uint4 memory[];
    const int c_padded = (C + K_STEP - 1) / K_STEP * K_STEP, X_ROW = c_padded + E;
    scalar_t* const x_tile = (scalar_t*)memory;              // [M_IN * 16][X_ROW]
    scalar_t* const hidden = x_tile + M_IN * 16 * X_ROW;     // [PIXELS_IN][ROW]
    scalar_t* const dw = hidden + PIXELS_IN * ROW;           // [PIXELS][ROW]
    scalar_t* const ring = dw + PIXELS * ROW;                // [STAGES][STAGE]
    const int STAGE = SLICE * X_ROW + O_PADDED * ROW + 9 * SLICE;
    const Tile<TILE_H, TILE_W, STRIDE> tile(blockIdx.x, H, W);
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
    const int slices = (HIDDEN - 1) / SLICE + 1;

    for (int i = threadIdx.x; i < M_IN * 16 * (c_padded / E); i += THREADS) {
        const int pixel = i / (c_padded / E), c = i % (c_padded / E) * E;
        const bool inside = c < C && tile.inside(pixel);
        cp_async_16(x_tile + pixel * X_ROW + c, inside ? x + tile.in(pixel) * C + c : x, inside);
    }
    auto fetch_slice = [&](int slice) {
        const int first = slice * SLICE, left = min(SLICE, HIDDEN - first);
        scalar_t* const to = ring + slice % STAGES * STAGE;
        if (slice < slices) {
            copy_rows<THREADS>(to, X_ROW, SLICE, c_padded, expand + (size_t)first * C, C, left, C);
            copy_rows<THREADS>(to + SLICE * X_ROW, ROW, O_PADDED, SLICE, project + first, HIDDEN, O, left);
            copy_rows<THREADS>(to + STAGE - 9 * SLICE, 0, 1, 9 * SLICE, depthwise + first * 9, 0, 1, left * 9);
        }
        cp_async_commit();  // an empty group too: waits count groups
    };
    for (int slice = 0; slice < STAGES - 1; ++slice) fetch_slice(slice);  // x comes with the first

    float sums[SUMS][2][4] = {};
    for (int slice = 0; slice < slices; ++slice) {
        const int first = slice * SLICE, left = min(SLICE, HIDDEN - first);  // channels of this slice
        cp_async_wait<STAGES - 2>();
        __syncthreads();  // the slice is there; all have read dw and the weights of the slice before
        fetch_slice(slice + STAGES - 1);
        const scalar_t* const w_expand = ring + slice % STAGES * STAGE;   // [SLICE][X_ROW]
        const scalar_t* const w_project = w_expand + SLICE * X_ROW;       // [O_PADDED][ROW]
        const scalar_t* const taps = w_project + O_PADDED * ROW;          // [SLICE][9]

        // expand: hidden = bounded(expand · x + bias); zeros outside of the image, as the depthwise pads
        for (int item = warp; item < M_IN * (SLICE / 16); item += WARPS) {
            const int m = item / (SLICE / 16) * 16, c0 = item % (SLICE / 16) * 16;
            float acc[2][4] = {};
            multiply_rows<scalar_t>(acc, x_tile + m * X_ROW, w_expand + c0 * X_ROW, X_ROW, c_padded);
#pragma unroll
            for (int i = 0; i < 4; ++i) {  // two neighbouring channels each
                const int pixel = m + i % 2 * 8 + g, c = c0 + i / 2 * 8 + 2 * t;
                const bool inside = c < left && tile.inside(pixel);
                float v[2] = {};
                for (int e = 0; e < 2 && inside; ++e)
                    v[e] = clamp(acc[i / 2][i % 2 * 2 + e] + or_zero(expand_bias, first + c + e), low1, high1);
                if (pixel < PIXELS_IN) store(hidden + pixel * ROW + c, v);
            }
        }
        __syncthreads();

        // depthwise: dw = bounded(3×3 of hidden + bias); taps are zeros in channels that there are not
        for (int i = threadIdx.x; i < PIXELS / STRIP * (SLICE / 2); i += THREADS) {
            const int c = i % (SLICE / 2) * 2, strip = i / (SLICE / 2);
            const int pixel = strip / TILE_W * STRIP * TILE_W + strip % TILE_W;  // the first; others are TILE_W further
            float tap[9][2], acc[STRIP][2];
#pragma unroll
            for (int k = 0; k < 18; ++k) tap[k % 9][k / 9] = (float)taps[c * 9 + k];
#pragma unroll
            for (int k = 0; k < 2 * STRIP; ++k)
                acc[k / 2][k % 2] = c < left ? or_zero(depthwise_bias, first + c + k % 2) : 0.0f;
#pragma unroll
            for (int under = 0; under < 3 * ((STRIP - 1) * STRIDE + 3); ++under) {  // pixels under the strip
                const int row = under / 3, column = under % 3;
                float v[2];
                read(v, hidden + (tile.corner(pixel) + row * IN_W + column) * ROW + c);
#pragma unroll
                for (int ky = 0; ky < 3; ++ky) {  // it lies under row ky of the window of this output, if there is one
                    const int out = (row - ky) / STRIDE;
                    if (row < ky || out * STRIDE != row - ky || out >= STRIP) continue;
                    for (int e = 0; e < 2; ++e) acc[out][e] = fmaf(v[e], tap[ky * 3 + column][e], acc[out][e]);
                }
            }
#pragma unroll
            for (int out = 0; out < STRIP; ++out) {
                for (int e = 0; e < 2; ++e) acc[out][e] = clamp(acc[out][e], low2, high2);
                store(dw + (pixel + out * TILE_W) * ROW + c, acc[out]);
            }
        }
        __syncthreads();

        // project: sums += project · dw
#pragma unroll
        for (int s = 0; s < SUMS; ++s) {
            const int item = warp + s * WARPS, m = item % M_OUT * 16, o0 = item / M_OUT * 16;
            if (o0 < O_PADDED) multiply_rows<scalar_t>(sums[s], dw + m * ROW, w_project + o0 * ROW, ROW, SLICE);
        }
    }

    // y = bounded(sums + bias + residual)
#pragma unroll
    for (int i = 0; i < SUMS * 4; ++i) {  // two neighbouring channels each
        const int item = warp + i / 4 * WARPS, pixel = item % M_OUT * 16 + i % 2 * 8 + g;
        const int o = item / M_OUT * 16 + i / 2 % 2 * 8 + 2 * t;
        if (o >= O || !tile.has(pixel)) continue;
        const size_t at = tile.out(pixel) * O + o;
        const int under = tile.corner(pixel) + IN_W + 1;  // x of the same pixel
        float v[2];
        for (int e = 0; e < 2; ++e) {
            const float more = ADDS_X ? (float)x_tile[under * X_ROW + o + e] : or_zero(residual, at + e);
            v[e] = clamp(sums[i / 4][i / 2 % 2][i % 2 * 2 + e] + or_zero(project_bias, o + e) + more, low3, high3);
        }
        store(y + at, v);
    }
}
