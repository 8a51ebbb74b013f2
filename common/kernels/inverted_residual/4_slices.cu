// inverted_residual, rung 4 "slices": a depthwise convolution mixes no channels, so SLICE hidden channels are enough.
//
//   x tile [PIXELS_IN][C], once; then for each slice of SLICE hidden channels:
//   x tile  ──expand──►  hidden [PIXELS_IN][SLICE]  ──depthwise──►  dw [PIXELS][SLICE]  ──project──►  + sums of y
//   shared memory        shared memory                              shared memory                    registers
//
// Moves   x once per tile, to shared memory: without this each slice would read it again.
// Gains   shared memory no longer grows with HIDDEN, so the tile does not shrink for it, and a smaller share of the
//         hidden pixels is computed twice. project is a sum over hidden channels: each slice adds its part.
// Costs   a thread keeps the sums of its SUMS outputs in registers from the first slice to the last: up to all that one
//         block per multiprocessor leaves it, so __launch_bounds__ asks for one. Three barriers per slice.
#include "fused.h"
#include "tile.h"

constexpr int E = 16 / sizeof(scalar_t);  // elements in 16 bytes
constexpr int IN_H = (TILE_H - 1) * STRIDE + 3, IN_W = (TILE_W - 1) * STRIDE + 3;  // pixels under a tile, see tile.h
constexpr int PIXELS = TILE_H * TILE_W, PIXELS_IN = IN_H * IN_W;
constexpr int SUMS = (PIXELS * O_PADDED - 1) / THREADS + 1;  // outputs of a thread

extern "C" __global__ void __launch_bounds__(THREADS, 1)
inverted_residual(const scalar_t* __restrict__ x, const scalar_t* __restrict__ expand,
                  const scalar_t* __restrict__ expand_bias, const scalar_t* __restrict__ depthwise,
                  const scalar_t* __restrict__ depthwise_bias, const scalar_t* __restrict__ project,
                  const scalar_t* __restrict__ project_bias, const scalar_t* __restrict__ residual,
                  scalar_t* __restrict__ y, scalar_t* scratch, int N, int H, int W, int C, int HIDDEN, int O,
                  float low1, float high1, float low2, float high2, float low3, float high3) {
    extern __shared__ uint4 memory[];
    scalar_t* const x_tile = (scalar_t*)memory;          // [PIXELS_IN][C]
    scalar_t* const hidden = x_tile + PIXELS_IN * C;     // [PIXELS_IN][SLICE]
    scalar_t* const dw = hidden + PIXELS_IN * SLICE;     // [PIXELS][SLICE]
    const Tile<TILE_H, TILE_W, STRIDE> tile(blockIdx.x, H, W);

    for (int i = threadIdx.x * E; i < PIXELS_IN * C; i += THREADS * E) {
        const int pixel = i / C;
        const uint4 zero = make_uint4(0, 0, 0, 0);
        *(uint4*)(x_tile + i) = tile.inside(pixel) ? *(const uint4*)(x + tile.in(pixel) * C + i % C) : zero;
    }

    float sums[SUMS] = {};
    for (int first = 0; first < HIDDEN; first += SLICE) {
        const int left = min(SLICE, HIDDEN - first);  // channels of this slice
        __syncthreads();                              // x_tile is there; all have read dw of the slice before

        // expand: hidden = bounded(expand · x + bias); zeros outside of the image, as the depthwise pads
        for (int i = threadIdx.x; i < PIXELS_IN * SLICE; i += THREADS) {
            const int c = i % SLICE, pixel = i / SLICE;
            float v = 0.0f;
            if (c < left && tile.inside(pixel)) {
                const float sum = dot(x_tile + pixel * C, expand + (size_t)(first + c) * C, C);
                v = bounded(sum + or_zero(expand_bias, first + c), low1, high1);
            }
            hidden[i] = (scalar_t)v;
        }
        __syncthreads();

        // depthwise: dw = bounded(3×3 of hidden + bias)
        for (int i = threadIdx.x; i < PIXELS * SLICE; i += THREADS) {
            const int c = i % SLICE, pixel = i / SLICE, corner = tile.corner(pixel);
            if (c >= left) continue;
            float sum = or_zero(depthwise_bias, first + c);
            for (int tap = 0; tap < 9; ++tap) {
                const int under = corner + tap / 3 * IN_W + tap % 3;
                sum = fmaf((float)hidden[under * SLICE + c], (float)depthwise[(first + c) * 9 + tap], sum);
            }
            dw[i] = (scalar_t)bounded(sum, low2, high2);
        }
        __syncthreads();

        // project: sums += project · dw
#pragma unroll
        for (int s = 0; s < SUMS; ++s) {
            const int i = threadIdx.x + s * THREADS, o = i % O_PADDED, pixel = i / O_PADDED;
            if (o >= O || !tile.has(pixel)) continue;
            sums[s] += dot(dw + pixel * SLICE, project + (size_t)o * HIDDEN + first, left);
        }
    }

    // y = bounded(sums + bias + residual)
#pragma unroll
    for (int s = 0; s < SUMS; ++s) {
        const int i = threadIdx.x + s * THREADS, o = i % O_PADDED, pixel = i / O_PADDED;
        if (o >= O || !tile.has(pixel)) continue;
        const size_t at = tile.out(pixel) * O + o;
        y[at] = (scalar_t)bounded(sums[s] + or_zero(project_bias, o) + or_zero(residual, at), low3, high3);
    }
}
