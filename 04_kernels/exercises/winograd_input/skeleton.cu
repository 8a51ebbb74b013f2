// winograd_input: V[4·r + s][t] = element (r, s) of Bᵀ d B, d the 4×4 pixels of tile t of the image x (H, W).
// The tiles, tiles_h · tiles_w of them, row by row, begin two pixels apart, the first at (-1, -1): padding 1. Outside the
// image d is 0. Bᵀ (a, b, c, d) = (a - c, b + c, c - b, b - d).
extern "C" __global__ void winograd_input(const float* x, float* V, int H, int W, int tiles_h, int tiles_w) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, tiles = tiles_h * tiles_w;
    float d[4][4];
    // your code: d, the pixels of tile t
    // your code: Bᵀ d, down the columns
    // your code: (Bᵀ d) B, along the rows
    // your code: V
}
