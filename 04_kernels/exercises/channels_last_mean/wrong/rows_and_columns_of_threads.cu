// expect: 32 channels of the same pixel
extern "C" __global__ void channels_last_mean(const float* x, float* out, int pixels, int channels) {
    __shared__ float s[8][32];
    int lane = threadIdx.x, warp = threadIdx.y, n = blockIdx.y, c = blockIdx.x * 32 + lane;
    float sum = 0.0f;
    for (int k = warp; k < 32 && blockIdx.x * 32 + k < channels; k += 8) {
        float part = 0.0f;
        for (int p = lane; p < pixels; p += 32) part += x[(n * pixels + p) * channels + blockIdx.x * 32 + k];
        for (int step = 16; step > 0; step /= 2) part += __shfl_down_sync(0xffffffffu, part, step);
        if (lane == 0) s[0][k] = part;
    }
    __syncthreads();
    if (warp > 0 || c >= channels) return;
    sum = s[0][lane];
    out[n * channels + c] = sum / pixels;
}
