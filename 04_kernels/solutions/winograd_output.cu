// winograd_output: the 2×2 outputs Aᵀ m A of each tile, m[r][s] = M[4·r + s][t], plus
// bias[0] (of one channel), clamped to [0, 6]; NaN stays NaN. The tiles are those of
// winograd_input. y is (oH, oW), odd or even. Aᵀ (a, b, c, d) = (a + b + c, b - c - d).
extern "C" __global__ void winograd_output(const float* M, const float* bias, float* y,
                                           int oH, int oW, int tiles_w, int tiles) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    // BEGIN SOLUTION
    // write: m, the 16 numbers of tile t
    // write: Aᵀ m, down the columns
    // write: (Aᵀ m) A, along the rows
    // write: those of the 2×2 outputs that exist, with the bias, clamped
    if (t >= tiles) return;
    float m[4][4];
    for (int k = 0; k < 16; ++k) m[k / 4][k % 4] = M[k * tiles + t];
    for (int s = 0; s < 4; ++s) {
        float first = m[0][s] + m[1][s] + m[2][s];
        m[1][s] = m[1][s] - m[2][s] - m[3][s], m[0][s] = first;
    }
    for (int r = 0; r < 2; ++r) {
        float first = m[r][0] + m[r][1] + m[r][2];
        m[r][1] = m[r][1] - m[r][2] - m[r][3], m[r][0] = first;
    }
    int top = t / tiles_w * 2, left = t % tiles_w * 2;
    for (int r = 0; r < 2 && top + r < oH; ++r)
        for (int s = 0; s < 2 && left + s < oW; ++s) {
            float v = m[r][s] + bias[0];  // fminf and fmaxf would hide a NaN
            y[(top + r) * oW + left + s] = v < 0.0f ? 0.0f : v > 6.0f ? 6.0f : v;
        }
    // END SOLUTION
}
