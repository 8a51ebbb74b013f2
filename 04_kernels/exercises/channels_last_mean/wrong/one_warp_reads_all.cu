// expect: of 8 warps read x
extern "C" __global__ void channels_last_mean(const float* x, float* out, int pixels, int channels) {
    int lane = threadIdx.x, n = blockIdx.y, c = blockIdx.x * 32 + lane;
    if (threadIdx.y > 0 || c >= channels) return;
    float sum = 0.0f;
    for (int p = 0; p < pixels; ++p) sum += x[(n * pixels + p) * channels + c];
    out[n * channels + c] = sum / pixels;
}
