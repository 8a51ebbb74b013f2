// square_with_any_grid: out[i] = in[i] * in[i] for n floats. The grid has one dimension. It
// may have far fewer threads than n, or more. All threads share the work.
extern "C" __global__ void square_with_any_grid(const float* in, float* out, int n) {
    // BEGIN SOLUTION
    // write: a loop over all elements of this thread
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (int i = thread; i < n; i += threads) out[i] = in[i] * in[i];
    // END SOLUTION
}
