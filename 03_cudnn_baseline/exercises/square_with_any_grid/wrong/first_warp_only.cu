// expect: some threads work while others wait
extern "C" __global__ void square_with_any_grid(const float* in, float* out, int n) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    if (thread < 32)
        for (int i = thread; i < n; i += 32) out[i] = in[i] * in[i];
}
