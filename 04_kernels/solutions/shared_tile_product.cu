// linear: out = x · Wᵀ. x is (M, K), W is (N, K), out is (M, N), row by row. Blocks of 16 × 16
// threads, one an element.
extern "C" __global__ void linear(const float* x, const float* W, float* out, int M, int N,
                                  int K) {
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0.0f;
    // BEGIN SOLUTION
    // write: shared memory for 16 × 16 of x and 16 × 16 of W, so that 16 lanes read it without
    // write: a bank conflict
    // ws[n][k] is read with n = tx: rows of 17 begin in 16 different banks
    __shared__ float xs[16][16], ws[16][17];
    // the row of W that this thread fetches from; its own column of out is another
    int n = blockIdx.x * 16 + ty;
    // END SOLUTION
    for (int k0 = 0; k0 < K; k0 += 16) {
        // BEGIN SOLUTION
        // write: fetch both tiles, every element once a block, lanes along rows; zeros where
        // write: the matrices end
        // write: 16 products
        xs[ty][tx] = row < M && k0 + tx < K ? x[row * K + k0 + tx] : 0.0f;
        ws[ty][tx] = n < N && k0 + tx < K ? W[n * K + k0 + tx] : 0.0f;
        __syncthreads();  // the tiles are there
        for (int k = 0; k < 16; ++k) sum += xs[ty][k] * ws[tx][k];
        __syncthreads();  // and may be overwritten
        // END SOLUTION
    }
    // BEGIN SOLUTION
    // write: the sum goes to out
    if (row < M && col < N) out[row * N + col] = sum;
    // END SOLUTION
}
