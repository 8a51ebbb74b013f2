extern "C" __global__ void row_times_matrix(const float* x, const float* B, const float* bias, float* y, int N, int K) {
    __shared__ float sums[8][33];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, n = blockIdx.x * 32 + lane;
    const int share = (K + 7) / 8, end = min(K, (warp + 1) * share);
    float sum = 0.0f;
    if (n < N)
        for (int k = warp * share; k < end; ++k) sum = fmaf(__ldg(x + k), __ldg(B + k * N + n), sum);
    sums[warp][lane] = sum;
    for (int half = 4; half; half /= 2) {
        __syncthreads();
        if (warp < half) sums[warp][lane] += sums[warp + half][lane];
    }
    if (warp || n >= N) return;
    const float all = sums[0][lane] + bias[n];
    y[n] = all > 0.0f ? all : 0.0f;
}
