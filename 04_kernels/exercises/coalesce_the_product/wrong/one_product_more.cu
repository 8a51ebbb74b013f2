// expect: the last block has threads without an element
extern "C" __global__ void product(const float* A, const float* B, float* C, int M, int N, int K) {
    int i = blockIdx.x * 256 + threadIdx.x;
    int row = i % M, col = i / M;  // down the columns, as they lie in memory
    if (col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k <= K; ++k) sum += A[k * M + row] * B[col * K + k];
    C[col * M + row] = sum;
}
