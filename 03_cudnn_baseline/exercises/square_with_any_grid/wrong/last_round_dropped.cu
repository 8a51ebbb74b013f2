// expect: must go on to its next element
extern "C" __global__ void square_with_any_grid(const float* in, float* out, int n) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (int i = thread; i + threads <= n; i += threads) out[i] = in[i] * in[i];
}
