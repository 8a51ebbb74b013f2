// expect: must go on to its next element
extern "C" __global__ void square_with_any_grid(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * in[i];
}
