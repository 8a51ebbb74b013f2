// winograd_output: the 2×2 outputs Aᵀ m A of each tile, m[r][s] = M[4·r + s][t], plus the bias, clamped to [0, 6].
// The tiles are those of winograd_input; y is (oH, oW), odd or even. Aᵀ (a, b, c, d) = (a + b + c, b - c - d).
extern "C" __global__ void winograd_output(const float* M, const float* bias, float* y, int oH, int oW, int tiles_w, int tiles) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    // your code: m, the 16 numbers of tile t
    // your code: Aᵀ m, down the columns
    // your code: (Aᵀ m) A, along the rows
    // your code: those of the 2×2 outputs that exist, with the bias, clamped
}
