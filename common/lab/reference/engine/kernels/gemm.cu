// gemm: out = a · bᵀ + bias. a is (M, K), b (N, K), bias (N), out (M, N), all row-major.
// A block computes TILE × TILE elements of out, a thread 4 × 4 of them, 16 apart.
// grid: (N + TILE - 1) / TILE, (M + TILE - 1) / TILE
// block: 16, 16
#define TILE 64
#define SLICE 16  // products per element between two barriers

extern "C" __global__ void __launch_bounds__(256) gemm(
    const float* a, const float* b, const float* bias, float* out, int M, int N, int K) {
    __shared__ float as[SLICE][TILE + 2], bs[SLICE][TILE + 2];  // a row per k
    int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;
    int t = threadIdx.y * 16 + threadIdx.x;
    float sums[4][4] = {};
    // BEGIN SOLUTION
    // write: for each slice of K: stage it in as and bs (0 beyond a matrix); add its products
    for (int k0 = 0; k0 < K; k0 += SLICE) {
        for (int i = t; i < TILE * SLICE; i += 256) {
            int k = i % SLICE, r = i / SLICE;
            size_t row = row0 + r, col = col0 + r;
            as[k][r] = row < M && k0 + k < K ? a[row * K + k0 + k] : 0.0f;
            bs[k][r] = col < N && k0 + k < K ? b[col * K + k0 + k] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < SLICE; ++k)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j)
                    sums[i][j] += as[k][threadIdx.y + 16 * i] * bs[k][threadIdx.x + 16 * j];
        __syncthreads();  // the next slice overwrites as and bs
    }
    // END SOLUTION
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            int row = row0 + threadIdx.y + 16 * i, col = col0 + threadIdx.x + 16 * j;
            if (row < M && col < N) out[(size_t)row * N + col] = sums[i][j] + bias[col];
        }
}
