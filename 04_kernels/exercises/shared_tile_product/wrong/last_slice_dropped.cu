// expect: the last slice of K belongs to the sum too
extern "C" __global__ void linear(const float* x, const float* W, float* out, int M, int N, int K) {
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0.0f;
    __shared__ float xs[16][16], ws[16][17];  // ws[n][k] is read with n = tx: rows of 17 begin in 16 different banks
    int n = blockIdx.x * 16 + ty;  // the row of W that this thread fetches from; its own column of out is another
    for (int k0 = 0; k0 + 15 < K; k0 += 16) {
        xs[ty][tx] = row < M && k0 + tx < K ? x[row * K + k0 + tx] : 0.0f;
        ws[ty][tx] = n < N && k0 + tx < K ? W[n * K + k0 + tx] : 0.0f;
        __syncthreads();  // the tiles are there
        for (int k = 0; k < 16; ++k) sum += xs[ty][k] * ws[tx][k];
        __syncthreads();  // and may be overwritten
    }
    if (row < M && col < N) out[row * N + col] = sum;
}
