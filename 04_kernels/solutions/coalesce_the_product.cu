// product: C = A·B, all three column by column, as BLAS has them: the element (row, k) of A is
// A[k * M + row]. A is (M, K), B (K, N), C (M, N). Blocks of 256 threads, one thread per
// element of C, and as many blocks as that takes.
extern "C" __global__ void product(const float* A, const float* B, float* C, int M, int N,
                                   int K) {
    int i = blockIdx.x * 256 + threadIdx.x;
    // BEGIN SOLUTION
    // write: row and column of thread i, so that the lanes of a warp load and store neighbours
    // write: the sum of K products, and its place in C
    int row = i % M, col = i / M;  // down the columns, as they lie in memory
    if (col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[k * M + row] * B[col * K + k];
    C[col * M + row] = sum;
    // END SOLUTION
}
