extern "C" __global__ void linear(const float* x, const float* W, float* out, int M, int N, int K) {
    __shared__ float xs[16][17], ws[16][17];
    const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx, n = col - tx + ty;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        const bool there = k0 + tx < K;
        const float a = there && row < M ? __ldg(x + row * K + k0 + tx) : 0.0f;
        const float b = there && n < N ? __ldg(W + n * K + k0 + tx) : 0.0f;
        __syncthreads();
        xs[ty][tx] = a, ws[tx][ty] = b;
        __syncthreads();
        for (int k = 15; k >= 0; --k) sum = fmaf(xs[ty][k], ws[k][tx], sum);
    }
    if (row < M && col < N) out[row * N + col] = sum;
}
