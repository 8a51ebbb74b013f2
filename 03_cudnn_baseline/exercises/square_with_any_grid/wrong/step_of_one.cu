// expect: two threads take the same element
extern "C" __global__ void square_with_any_grid(const float* in, float* out, int n) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (int i = thread; i < n; ++i) out[i] = in[i] * in[i];
}
