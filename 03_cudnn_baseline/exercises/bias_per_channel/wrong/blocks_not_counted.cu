// expect: two threads have the same index
extern "C" __global__ void bias_per_channel(const float* in, const float* bias, float* out,
                                            int pixels, int channels) {
    int i = threadIdx.x;
    if (i < pixels * channels) out[i] = in[i] + bias[i % channels];
}
