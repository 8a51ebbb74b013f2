// gemm: out (M, N) = a (M, K) · b (N, K) transposed + bias (N). One thread per element of out.
// grid: (N + 15) / 16, (M + 15) / 16
// block: 16, 16
extern "C" __global__ void gemm(
    const float* a, const float* b, const float* bias, float* out, int M, int N, int K) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += a[(size_t)row * K + k] * b[(size_t)col * K + k];
    out[(size_t)row * N + col] = sum + bias[col];
}
