extern "C" __global__ void __launch_bounds__(64) product(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[8][36], Bs[8][40];  // A's part lies on its side
    const int tx = threadIdx.x, ty = threadIdx.y, row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
    float sum[16];
    for (float& s : sum) s = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int i = 0; i < 32; i += 8) {
            As[tx][ty + i] = row0 + ty + i < M && k0 + tx < K ? A[(row0 + ty + i) * K + k0 + tx] : 0.0f;
            Bs[ty][tx + i] = k0 + ty < K && col0 + tx + i < N ? B[(k0 + ty) * N + col0 + tx + i] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < 8; ++k) {
            const float4 a = *(const float4*)&As[k][4 * ty];
            const float rows[4] = {a.x, a.y, a.z, a.w};
            for (int j = 0; j < 4; ++j) {
                const float b = Bs[k][tx + 8 * j];
                for (int i = 0; i < 4; ++i) sum[4 * i + j] = fmaf(rows[i], b, sum[4 * i + j]);
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            if (row0 + 4 * ty + i < M && col0 + tx + 8 * j < N) C[(row0 + 4 * ty + i) * N + col0 + tx + 8 * j] = sum[4 * i + j];
}
