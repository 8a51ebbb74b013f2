// expect: each element of C has one thread
extern "C" __global__ void product(const float* A, const float* B, float* C, int M, int N, int K) {
    int i = blockIdx.x * 256 + threadIdx.x;
    for (int j = i; j < i + 2 && j < M * N; ++j) {  // one's own element and, to be sure, the neighbour's
        int row = j % M, col = j / M;
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) sum += A[k * M + row] * B[col * K + k];
        C[j] = sum;
    }
}
