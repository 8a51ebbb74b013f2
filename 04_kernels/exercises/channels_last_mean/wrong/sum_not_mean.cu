// expect: a mean is the sum over the number of pixels
extern "C" __global__ void channels_last_mean(const float* x, float* out, int pixels, int channels) {
    __shared__ float s[8][32];
    int lane = threadIdx.x, warp = threadIdx.y, n = blockIdx.y, c = blockIdx.x * 32 + lane;
    float sum = 0.0f;
    if (c < channels)
        for (int p = warp; p < pixels; p += 8) sum += x[(n * pixels + p) * channels + c];
    s[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || c >= channels) return;
    for (int w = 1; w < 8; ++w) sum += s[w][lane];
    out[n * channels + c] = sum;
}
