// pool: out[c] = the mean of the `area` numbers from in[c * area] on. One thread per channel.
// grid: (channels + 127) / 128
// block: 128
extern "C" __global__ void pool(const float* in, float* out, int channels, int area) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels) return;
    float sum = 0.0f;
    for (int i = 0; i < area; ++i) sum += in[(size_t)c * area + i];
    out[c] = sum / area;
}
