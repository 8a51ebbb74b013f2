// expect: block b begins at index b * blockDim.x
extern "C" __global__ void scale_any_length(const float* in, float* out, float factor, int n) {
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n) out[i] = factor * in[i];
}
