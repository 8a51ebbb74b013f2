// product: C = A·B, all three column by column, as BLAS has them: the element (row, k) of A is A[k * M + row].
// A is (M, K), B (K, N), C (M, N). Blocks of 256 threads, an element of C each, and as many blocks as that takes.
extern "C" __global__ void product(const float* A, const float* B, float* C, int M, int N, int K) {
    int i = blockIdx.x * 256 + threadIdx.x;
    // your code: which row and which column of C are thread i's, so that a warp's lanes read and write neighbours?
    float sum = 0.0f;
    // your code: the K products
    // your code: the sum goes to C
}
