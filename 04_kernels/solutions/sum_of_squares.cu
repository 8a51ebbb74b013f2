// sum_of_squares: out[t] = in[t]² + in[t + threads]² + in[t + 2 * threads]² + … for each
// thread t of the grid; threads = gridDim.x * blockDim.x. in has n floats, out one per thread.
extern "C" __global__ void sum_of_squares(const float* in, float* out, int n) {
    // BEGIN SOLUTION
    // write: the whole body, for example with four sums that do not wait for each other
    const int t = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    float sum[4] = {};
    int i = t;
    for (; i + 3 * threads < n; i += 4 * threads)
        for (int k = 0; k < 4; ++k) {
            const float x = in[i + k * threads];
            sum[k] += x * x;
        }
    for (; i < n; i += threads) sum[0] += in[i] * in[i];
    out[t] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    // END SOLUTION
}
