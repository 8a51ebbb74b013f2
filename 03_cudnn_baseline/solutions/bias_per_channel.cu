// bias_per_channel: out[p][c] = in[p][c] + bias[c]. in and out are row-major matrices. They
// have `pixels` rows and `channels` columns. bias has `channels` elements. The grid has one
// dimension. It has at least `pixels * channels` threads.
extern "C" __global__ void bias_per_channel(const float* in, const float* bias, float* out,
                                            int pixels, int channels) {
    // BEGIN SOLUTION
    // write: one element of out, and the element of bias that belongs to it
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < pixels * channels) out[i] = in[i] + bias[i % channels];
    // END SOLUTION
}
