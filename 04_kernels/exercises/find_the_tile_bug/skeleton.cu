// product: C = A·B. A is (M, K), B is (K, N), C is (M, N), row by row. Blocks of 16 × 16
// threads, an element of C each. Its author tried it at 16 × 16 and 64 × 64, and it was right.
// At other sizes it is not: four things are missing or wrong. Any line may change.
extern "C" __global__ void product(const float* A, const float* B, float* C, int M, int N,
                                   int K) {
    __shared__ float As[16][16], Bs[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        if (row < M && k0 + tx < K) As[ty][tx] = A[row * K + k0 + tx];
        Bs[ty][tx] = B[(k0 + ty) * N + col];
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += As[ty][k] * Bs[k][tx];
    }
    C[row * N + col] = sum;
}
