// mix: out[o][p] = the sum over c of weight[c][o] * in[c][p], for 24 inputs c and 128 outputs
// o. Thread p computes all 128 outputs of pixel p; in is (24, pixels), out (128, pixels).
extern "C" __global__ void mix(const float* in, const float* weight, float* out, int pixels) {
    __shared__ float w[24 * 128];
    for (int k = threadIdx.x; k < 24 * 128; k += blockDim.x) w[k] = weight[k];
    __syncthreads();
    const int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pixels) return;
    float sum[128] = {};
    for (int c = 0; c < 24; ++c) {
        const float x = in[c * pixels + p];
        for (int o = 0; o < 128; ++o) sum[o] += w[c * 128 + o] * x;
    }
    for (int o = 0; o < 128; ++o) out[o * pixels + p] = sum[o];
}
