// inverted_residual, rung 5 "tensor_cores": both 1×1 convolutions are products of matrices, multiplied by mma.
// requires: sm_80
//
//   expand:  hidden (pixels × SLICE) = x tile (pixels × C) · weights (SLICE × C)ᵀ
//   project: y (pixels × O) += dw (pixels × SLICE) · weights (O × SLICE)ᵀ
//   A warp computes 16 pixels × 16 channels at a time. Both factors lie in shared memory with their channels innermost;
//   rows are an odd number of 16 bytes long, so that the 8 rows of an ldmatrix begin in different banks.
//
// Moves   a slice of the weights from global to shared memory once per block, not once per pixel of the tile; what a
//         warp multiplies by ldmatrix: 16 rows at once for both factors.
// Gains   2,048 multiply-adds per instruction in fp16. fp32 takes three products of TF32 parts (tf32x3.h).
// Costs   shared memory for the weights of a slice; pixels are rounded up to 16, C to 32 bytes and O to 16 with zeros.
//         The block waits while weights come: all of a slice's work begins with a load from global memory.
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

// To rows of shared memory, TO_ROW apart: a matrix with rows `length` apart; zeros beyond its `rows` and `columns`.
__device__ __forceinline__ void fetch(scalar_t* to, int to_row, int to_rows, int to_columns, const scalar_t* from,
                                      int length, int rows, int columns) {
    for (int i = threadIdx.x; i < to_rows * (to_columns / E); i += THREADS) {
        const int row = i / (to_columns / E), column = i % (to_columns / E) * E;
        const bool inside = row < rows && column < columns;
        uint4* const place = (uint4*)(to + row * to_row + column);
        *place = inside ? *(const uint4*)(from + (size_t)row * length + column) : make_uint4(0, 0, 0, 0);
    }
}

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
    scalar_t* const w_expand = dw + PIXELS * ROW;            // [SLICE][X_ROW]
    scalar_t* const w_project = w_expand + SLICE * X_ROW;    // [O_PADDED][ROW]
    const Tile<TILE_H, TILE_W, STRIDE> tile(blockIdx.x, H, W);
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;

    for (int i = threadIdx.x; i < M_IN * 16 * (c_padded / E); i += THREADS) {
        const int pixel = i / (c_padded / E), c = i % (c_padded / E) * E;
        const bool inside = c < C && tile.inside(pixel);
        const uint4 zero = make_uint4(0, 0, 0, 0);
        *(uint4*)(x_tile + pixel * X_ROW + c) = inside ? *(const uint4*)(x + tile.in(pixel) * C + c) : zero;
    }

    float sums[SUMS][2][4] = {};
    for (int first = 0; first < HIDDEN; first += SLICE) {
        const int left = min(SLICE, HIDDEN - first);  // channels of this slice
        __syncthreads();                              // all have read dw and the weights of the slice before
        fetch(w_expand, X_ROW, SLICE, c_padded, expand + (size_t)first * C, C, left, C);
        fetch(w_project, ROW, O_PADDED, SLICE, project + first, HIDDEN, O, left);
        __syncthreads();

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
                    v[e] = bounded(acc[i / 2][i % 2 * 2 + e] + or_zero(expand_bias, first + c + e), low1, high1);
                if (pixel < PIXELS_IN) store(hidden + pixel * ROW + c, v);
            }
        }
        __syncthreads();

        // depthwise: dw = bounded(3×3 of hidden + bias); zeros in channels that there are not
        for (int i = threadIdx.x; i < PIXELS * SLICE; i += THREADS) {
            const int c = i % SLICE, pixel = i / SLICE, corner = tile.corner(pixel);
            float sum = c < left ? or_zero(depthwise_bias, first + c) : 0.0f;
            for (int tap = 0; tap < 9 && c < left; ++tap) {
                const int under = corner + tap / 3 * IN_W + tap % 3;
                sum = fmaf((float)hidden[under * ROW + c], (float)depthwise[(first + c) * 9 + tap], sum);
            }
            dw[pixel * ROW + c] = (scalar_t)(c < left ? bounded(sum, low2, high2) : 0.0f);
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
        float v[2];
        for (int e = 0; e < 2; ++e) {
            const float rest = or_zero(project_bias, o + e) + or_zero(residual, at + e);
            v[e] = bounded(sums[i / 4][i / 2 % 2][i % 2 * 2 + e] + rest, low3, high3);
        }
        store(y + at, v);
    }
}
