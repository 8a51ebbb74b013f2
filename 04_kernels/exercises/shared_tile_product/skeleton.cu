// linear: out = x · Wᵀ. x is (M, K), W is (N, K), out is (M, N), row by row. Blocks of 16 × 16 threads, one an element.
extern "C" __global__ void linear(const float* x, const float* W, float* out, int M, int N, int K) {
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0.0f;
    // your code: shared memory for 16 × 16 of x and 16 × 16 of W, so that 16 lanes read it without a bank conflict
    for (int k0 = 0; k0 < K; k0 += 16) {
        // your code: fetch both tiles, every element once a block, lanes along rows; zeros where the matrices end
        // your code: 16 products
    }
    // your code: the sum goes to out
}
