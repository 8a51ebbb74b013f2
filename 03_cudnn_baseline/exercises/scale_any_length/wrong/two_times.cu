// expect: out[i] is factor * in[i]
extern "C" __global__ void scale_any_length(const float* in, float* out, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * in[i];
}
