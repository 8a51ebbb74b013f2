// product: C = A·B, all three column by column, as BLAS has them: the element (row, k) of A is
// A[k * M + row]. A is (M, K), B (K, N), C (M, N). Blocks of 256 threads, an element of C
// each, and as many blocks as that takes.
extern "C" __global__ void product(const float* A, const float* B, float* C, int M, int N,
                                   int K) {
    int i = blockIdx.x * 256 + threadIdx.x;
    // BEGIN SOLUTION
    // write: which row and which column of C are thread i's, so that a warp's lanes read and
    // write: write neighbours?
    int row = i % M, col = i / M;  // down the columns, as they lie in memory
    if (col >= N) return;
    // END SOLUTION
    float sum = 0.0f;
    // BEGIN SOLUTION
    // write: the K products
    // write: the sum goes to C
    for (int k = 0; k < K; ++k) sum += A[k * M + row] * B[col * K + k];
    C[col * M + row] = sum;
    // END SOLUTION
}
