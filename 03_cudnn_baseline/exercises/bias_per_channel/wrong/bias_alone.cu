// expect: out[p][c] is a sum of two numbers
extern "C" __global__ void bias_per_channel(const float* in, const float* bias, float* out,
                                            int pixels, int channels) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < pixels * channels) out[i] = bias[i % channels];
}
