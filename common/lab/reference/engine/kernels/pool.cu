// pool: out[c] = the mean of the `area` numbers from in[c * area] on, for c in [0, channels).
// grid: (channels + 7) / 8
// block: 256
extern "C" __global__ void pool(const float* in, float* out, int channels, int area) {
    // BEGIN SOLUTION
    // write: one warp per channel: a sum per lane, then the sum of the 32 lanes by shuffles
    int lane = threadIdx.x % 32;
    int channel = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (channel >= channels) return;  // the whole warp
    in += (size_t)channel * area;
    float sum = 0.0f;
    for (int i = lane; i < area; i += 32) sum += in[i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (lane == 0) out[channel] = sum / area;
    // END SOLUTION
}
