// product: C = A·B. A is (M, K), B is (K, N), C is (M, N), row by row.
// Blocks of 8 × 8 threads compute 32 × 32 of C, a thread 16 elements of it: 4 rows, 4 columns.
extern "C" __global__ void product(const float* A, const float* B, float* C, int M, int N,
                                   int K) {
    __shared__ float As[32][8], Bs[8][40];  // rows of 40: 4 rows of 8 lanes lie in 32 banks
    int tx = threadIdx.x, ty = threadIdx.y;
    int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
    // BEGIN SOLUTION
    // write: 16 sums
    float sum[4][4] = {};  // [i][j]: row ty + 8 i, column tx + 8 j of the block's part
    // END SOLUTION
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int i = 0; i < 32; i += 8) {
            As[ty + i][tx] = row0 + ty + i < M && k0 + tx < K
                ? A[(row0 + ty + i) * K + k0 + tx] : 0.0f;
            Bs[ty][tx + i] = k0 + ty < K && col0 + tx + i < N
                ? B[(k0 + ty) * N + col0 + tx + i] : 0.0f;
        }
        __syncthreads();
        // BEGIN SOLUTION
        // write: for each of 8 k, 4 numbers of As and 4 of Bs make 16 products
        for (int k = 0; k < 8; ++k) {
            float a[4], b[4];
            for (int i = 0; i < 4; ++i) a[i] = As[ty + 8 * i][k];
            for (int j = 0; j < 4; ++j) b[j] = Bs[k][tx + 8 * j];
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) sum[i][j] += a[i] * b[j];
        }
        // END SOLUTION
        __syncthreads();
    }
    // BEGIN SOLUTION
    // write: the sums go to C. Which 4 columns are a thread's, if neighbouring lanes shall
    // write: store neighbours?
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            int row = row0 + ty + 8 * i, col = col0 + tx + 8 * j;
            if (row < M && col < N) C[row * N + col] = sum[i][j];
        }
    // END SOLUTION
}
