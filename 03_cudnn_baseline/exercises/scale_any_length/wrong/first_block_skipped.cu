// expect: Block 0 begins at index 0
extern "C" __global__ void scale_any_length(const float* in, float* out, float factor, int n) {
    int i = (blockIdx.x + 1) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * in[i];
}
