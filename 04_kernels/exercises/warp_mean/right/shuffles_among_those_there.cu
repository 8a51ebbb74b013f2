extern "C" __global__ void __launch_bounds__(1024) warp_mean(const float* x, float* out, int pixels) {
    __shared__ float s[32];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5, warps = (blockDim.x + 31) >> 5;
    const int lanes = min(32, (int)blockDim.x - 32 * warp);
    const unsigned mask = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1;
    float sum = 0.0f;
    for (int p = t; p < pixels; p += blockDim.x) sum += __ldg(x + blockIdx.x * pixels + p);
    for (int step = 16; step > 0; step >>= 1) {
        const float other = __shfl_down_sync(mask, sum, step);
        sum += lane + step < lanes ? other : 0.0f;
    }
    if (lane == 0) s[warp] = sum;
    __syncthreads();
    if (t) return;
    float all = 0.0f;
    for (int w = 0; w < warps; ++w) all += s[w];
    out[blockIdx.x] = all / pixels;
}
