// expect: one thread works while the others wait
extern "C" __global__ void bias_per_channel(const float* in, const float* bias, float* out,
                                            int pixels, int channels) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < pixels)
        for (int c = 0; c < channels; ++c) out[i * channels + c] = in[i * channels + c] + bias[c];
}
