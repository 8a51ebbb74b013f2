// expect: some threads work while others wait
extern "C" __global__ void square_with_any_grid(const float* in, float* out, int n) {
    if (blockIdx.x == 0)
        for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = in[i] * in[i];
}
