// linear: out = x · Wᵀ. x is (M, K), W is (N, K), out is (M, N), all row-major. Blocks of
// 16 × 16 threads, one thread per element of out; blockIdx.x counts along N.
extern "C" __global__ void linear(const float* x, const float* W, float* out, int M, int N,
                                  int K) {
    // BEGIN SOLUTION
    // write: tiles of 16 × 16 of x and of W in shared memory; copy, barrier, multiply, barrier
    // write: zeros beyond the matrices; each element of out once
    // ws[n][k] is read with n = tx: rows of 17 begin in 16 different banks
    __shared__ float xs[16][16], ws[16][17];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    // the row of W that this thread copies from; its own column of out is another
    int n = blockIdx.x * 16 + ty;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        xs[ty][tx] = row < M && k0 + tx < K ? x[row * K + k0 + tx] : 0.0f;
        ws[ty][tx] = n < N && k0 + tx < K ? W[n * K + k0 + tx] : 0.0f;
        __syncthreads();  // the tiles are filled
        for (int k = 0; k < 16; ++k) sum += xs[ty][k] * ws[tx][k];
        __syncthreads();  // and may be overwritten
    }
    if (row < M && col < N) out[row * N + col] = sum;
    // END SOLUTION
}
