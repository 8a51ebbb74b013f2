// expect: two threads take the same element
extern "C" __global__ void square_with_any_grid(const float* in, float* out, int n) {
    int threads = gridDim.x * blockDim.x;
    for (int i = threadIdx.x; i < n; i += threads) out[i] = in[i] * in[i];
}
