// inverted_residual, rung 3 "halo": a block computes a tile of output pixels, whose windows share their hidden pixels.
//
//   One block per TILE_H×TILE_W outputs. Under them lie IN_H×IN_W hidden pixels: the tile's own and a border, the halo:
//   x  ──expand──►  hidden [PIXELS_IN][HIDDEN]  ──depthwise──►  dw [PIXELS][HIDDEN]  ──project──►  y [PIXELS][O]
//
// Moves   the weights from the L2 cache once per tile, as far as L1 keeps them; rung 2 reads them once per pixel.
// Gains   a hidden pixel is computed once per tile that needs it, IN_H·IN_W / (TILE_H·TILE_W·STRIDE²) times on
//         average: at stride 1 that is 9 for a tile of one pixel, 2.25 for 4×4, and nears 1 as the tile grows.
// Costs   shared memory for all hidden channels of the tile: the more channels, the smaller the tile, and the
//         larger the share of its halo. Blocks at the edge of the image compute fewer outputs than their tile has.
#include "fused.h"
#include "tile.h"

constexpr int IN_H = (TILE_H - 1) * STRIDE + 3, IN_W = (TILE_W - 1) * STRIDE + 3;  // pixels under a tile, see tile.h
constexpr int PIXELS = TILE_H * TILE_W, PIXELS_IN = IN_H * IN_W;

extern "C" __global__ void __launch_bounds__(THREADS, 2)
inverted_residual(const scalar_t* __restrict__ x, const scalar_t* __restrict__ expand,
                  const scalar_t* __restrict__ expand_bias, const scalar_t* __restrict__ depthwise,
                  const scalar_t* __restrict__ depthwise_bias, const scalar_t* __restrict__ project,
                  const scalar_t* __restrict__ project_bias, const scalar_t* __restrict__ residual,
                  scalar_t* __restrict__ y, scalar_t* scratch, int N, int H, int W, int C, int HIDDEN, int O,
                  float low1, float high1, float low2, float high2, float low3, float high3) {
    extern __shared__ uint4 memory[];
    scalar_t* const hidden = (scalar_t*)memory;        // [PIXELS_IN][HIDDEN]
    scalar_t* const dw = hidden + PIXELS_IN * HIDDEN;  // [PIXELS][HIDDEN]
    const Tile<TILE_H, TILE_W, STRIDE> tile(blockIdx.x, H, W);

    // expand: hidden = bounded(expand · x + bias); zeros outside of the image, as the depthwise pads
    for (int i = threadIdx.x; i < PIXELS_IN * HIDDEN; i += THREADS) {
        const int c = i % HIDDEN, pixel = i / HIDDEN;
        float v = 0.0f;
        if (tile.inside(pixel)) {
            const float sum = dot(x + tile.in(pixel) * C, expand + (size_t)c * C, C);
            v = bounded(sum + or_zero(expand_bias, c), low1, high1);
        }
        hidden[i] = (scalar_t)v;
    }
    __syncthreads();

    // depthwise: dw = bounded(3×3 of hidden + bias)
    for (int i = threadIdx.x; i < PIXELS * HIDDEN; i += THREADS) {
        const int c = i % HIDDEN, pixel = i / HIDDEN, corner = tile.corner(pixel);
        float sum = or_zero(depthwise_bias, c);
        for (int tap = 0; tap < 9; ++tap) {
            const int under = corner + tap / 3 * IN_W + tap % 3;
            sum = fmaf((float)hidden[under * HIDDEN + c], (float)depthwise[c * 9 + tap], sum);
        }
        dw[i] = (scalar_t)bounded(sum, low2, high2);
    }
    __syncthreads();

    // project: y = bounded(project · dw + bias + residual)
    for (int i = threadIdx.x; i < PIXELS * O; i += THREADS) {
        const int o = i % O, pixel = i / O;
        if (!tile.has(pixel)) continue;
        const size_t at = tile.out(pixel) * O + o;
        const float sum = dot(dw + pixel * HIDDEN, project + (size_t)o * HIDDEN, HIDDEN);
        y[at] = (scalar_t)bounded(sum + or_zero(project_bias, o) + or_zero(residual, at), low3, high3);
    }
}
