// gemm: out = a · bᵀ + bias. a is (M, K), b (N, K), bias (N), out (M, N), all row-major.
// A block computes TILE × TILE elements of out, a thread 4 × 4 of them, 16 apart.
// grid: (N + TILE - 1) / TILE, (M + TILE - 1) / TILE
// block: 16, 16
#define TILE 64
#define SLICE 16  // of K, between two barriers

extern "C" __global__ void __launch_bounds__(256) gemm(
    const float* a, const float* b, const float* bias, float* out, int M, int N, int K) {
    // a row per k; TILE + 2, so that the 32 numbers that a warp stores lie in 32 banks
    __shared__ float as[SLICE][TILE + 2], bs[SLICE][TILE + 2];
    int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
    int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;
    float sums[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += SLICE) {
        for (int i = t; i < TILE * SLICE; i += 256) {
            int k = i % SLICE, r = i / SLICE, row = row0 + r, col = col0 + r;
            as[k][r] = row < M && k0 + k < K ? a[(size_t)row * K + k0 + k] : 0.0f;
            bs[k][r] = col < N && k0 + k < K ? b[(size_t)col * K + k0 + k] : 0.0f;
        }
        // BEGIN SOLUTION
        // write: per k, 4 numbers of each tile into registers, and 16 products; two barriers
        __syncthreads();  // the tiles are filled
        for (int k = 0; k < SLICE; ++k) {
            float x[4], y[4];
            for (int i = 0; i < 4; ++i) x[i] = as[k][ty + 16 * i];
            for (int j = 0; j < 4; ++j) y[j] = bs[k][tx + 16 * j];
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) sums[i][j] += x[i] * y[j];
        }
        __syncthreads();  // the next slice overwrites them
        // END SOLUTION
    }
    // BEGIN SOLUTION
    // write: each element of out once, with its bias
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            int row = row0 + ty + 16 * i, col = col0 + tx + 16 * j;
            if (row < M && col < N) out[(size_t)row * N + col] = sums[i][j] + bias[col];
        }
    // END SOLUTION
}
