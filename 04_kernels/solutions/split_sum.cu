// row_times_matrix: y[n] = max(Σ_k x[k] · B[k][n] + bias[n], 0). B is (K, N), row by row. A
// block has 32 columns n, one per lane. Its 8 warps share the K rows and add their sums at the
// end. The same numbers give the same bits each time.
extern "C" __global__ void row_times_matrix(const float* x, const float* B, const float* bias,
                                            float* y, int N, int K) {
    __shared__ float sums[8][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = blockIdx.x * 32 + lane;
    float sum = 0.0f;
    // BEGIN SOLUTION
    // write: sum, of the rows k that fall to this warp
    // write: the 8 warps' sums come together
    // write: y[n]
    if (n < N)
        for (int k = warp; k < K; k += 8) sum += x[k] * B[k * N + n];
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && n < N) {
        float all = bias[n];
        for (int w = 0; w < 8; ++w) all += sums[w][lane];  // always in this order
        y[n] = fmaxf(all, 0.0f);
    }
    // END SOLUTION
}
