// expect: factor is a float: as an int it loses
extern "C" __global__ void scale_any_length(const float* in, float* out, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, f = (int)factor;
    if (i < n) out[i] = f * in[i];
}
