// expect: some threads work while others wait
extern "C" __global__ void square_with_any_grid(const float* in, float* out, int n) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    if (thread == 0)
        for (int i = 0; i < n; ++i) out[i] = in[i] * in[i];
}
