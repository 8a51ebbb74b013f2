// tile.h - a tile of output pixels of a 3×3 convolution with padding 1, and the pixels under its windows.
//
//   Tile<OUT_H, OUT_W, STEP> tile(number, H, W);   OUT_H×OUT_W outputs at stride STEP, of images of H×W pixels;
//                                                  numbered along a row, then by rows, then by images
//     tile.IN_H, tile.IN_W      rows and columns of pixels under the tile; both kinds of pixels are numbered by rows
//     tile.corner(pixel)        of an output pixel: the one under its first tap; IN_W + 1 further lies the middle one
//     tile.inside(pixel)        whether a pixel under the tile lies in the image, and not in its padding
//     tile.in(pixel)            its number among the pixels of all images
//     tile.has(pixel)           whether there is this output pixel: the last tiles of an image may reach beyond it
//     tile.out(pixel)           its number among the output pixels of all images
#pragma once

template <int OUT_H, int OUT_W, int STEP> struct Tile {
    static constexpr int IN_H = (OUT_H - 1) * STEP + 3, IN_W = (OUT_W - 1) * STEP + 3;
    int H, W, OH, OW, n, oy, ox;  // the image, its outputs; which image, and the tile's first output

    __device__ Tile(int number, int H, int W) : H(H), W(W), OH((H - 1) / STEP + 1), OW((W - 1) / STEP + 1) {
        const int tiles_h = (OH - 1) / OUT_H + 1, tiles_w = (OW - 1) / OUT_W + 1;
        n = number / tiles_w / tiles_h, oy = number / tiles_w % tiles_h * OUT_H, ox = number % tiles_w * OUT_W;
    }
    __device__ static int corner(int pixel) { return pixel / OUT_W * STEP * IN_W + pixel % OUT_W * STEP; }
    __device__ int row(int pixel) const { return oy * STEP - 1 + pixel / IN_W; }
    __device__ int column(int pixel) const { return ox * STEP - 1 + pixel % IN_W; }
    __device__ bool inside(int pixel) const {
        return pixel < IN_H * IN_W && row(pixel) >= 0 && row(pixel) < H && column(pixel) >= 0 && column(pixel) < W;
    }
    __device__ size_t in(int pixel) const { return (size_t)(n * H + row(pixel)) * W + column(pixel); }
    __device__ bool has(int pixel) const {
        return pixel < OUT_H * OUT_W && oy + pixel / OUT_W < OH && ox + pixel % OUT_W < OW;
    }
    __device__ size_t out(int pixel) const { return (size_t)(n * OH + oy + pixel / OUT_W) * OW + ox + pixel % OUT_W; }
};
