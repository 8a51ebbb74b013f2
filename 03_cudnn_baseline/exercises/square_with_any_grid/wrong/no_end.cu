// expect: the last round need not be full
extern "C" __global__ void square_with_any_grid(const float* in, float* out, int n) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (int i = thread; i < n + threads; i += threads) out[i] = in[i] * in[i];
}
