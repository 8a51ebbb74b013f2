// expect: each slice has 8 values of k
extern "C" __global__ void product(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[32][8], Bs[8][40];  // rows of 40: 4 rows of 8 lanes lie in 32 banks
    int tx = threadIdx.x, ty = threadIdx.y;
    int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
    float sum[4][4] = {};  // [i][j]: row ty + 8 i, column tx + 8 j of the block's part
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int i = 0; i < 32; i += 8) {
            As[ty + i][tx] = row0 + ty + i < M && k0 + tx < K ? A[(row0 + ty + i) * K + k0 + tx] : 0.0f;
            Bs[ty][tx + i] = k0 + ty < K && col0 + tx + i < N ? B[(k0 + ty) * N + col0 + tx + i] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < 7; ++k) {
            float a[4], b[4];
            for (int i = 0; i < 4; ++i) a[i] = As[ty + 8 * i][k];
            for (int j = 0; j < 4; ++j) b[j] = Bs[k][tx + 8 * j];
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) sum[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            int row = row0 + ty + 8 * i, col = col0 + tx + 8 * j;
            if (row < M && col < N) C[row * N + col] = sum[i][j];
        }
}
