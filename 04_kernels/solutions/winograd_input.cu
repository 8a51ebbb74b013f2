// winograd_input: V[4·r + s][t] = element (r, s) of Bᵀ d B, d the 4×4 pixels of tile t of the
// image x (H, W). The tiles, tiles_h · tiles_w of them, row by row, begin two pixels apart,
// the first at (-1, -1): padding 1. Outside the image d is 0. Bᵀ (a, b, c, e) = (a - c, b + c,
// c - b, b - e).
extern "C" __global__ void winograd_input(const float* x, float* V, int H, int W, int tiles_h,
                                          int tiles_w) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, tiles = tiles_h * tiles_w;
    float d[4][4];
    // BEGIN SOLUTION
    // write: d, the pixels of tile t
    // write: Bᵀ d, down the columns
    // write: (Bᵀ d) B, along the rows
    // write: V
    if (t >= tiles) return;
    int top = t / tiles_w * 2 - 1, left = t % tiles_w * 2 - 1;
    for (int r = 0; r < 4; ++r)
        for (int s = 0; s < 4; ++s) {
            bool inside = top + r >= 0 && top + r < H && left + s >= 0 && left + s < W;
            d[r][s] = inside ? x[(top + r) * W + left + s] : 0.0f;
        }
    for (int s = 0; s < 4; ++s) {
        float a = d[0][s], b = d[1][s], c = d[2][s], e = d[3][s];
        d[0][s] = a - c, d[1][s] = b + c, d[2][s] = c - b, d[3][s] = b - e;
    }
    for (int r = 0; r < 4; ++r) {
        float a = d[r][0], b = d[r][1], c = d[r][2], e = d[r][3];
        d[r][0] = a - c, d[r][1] = b + c, d[r][2] = c - b, d[r][3] = b - e;
    }
    for (int k = 0; k < 16; ++k) V[k * tiles + t] = d[k / 4][k % 4];
    // END SOLUTION
}
