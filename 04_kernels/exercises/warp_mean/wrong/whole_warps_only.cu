// expect: warp 0's sum alone
extern "C" __global__ void warp_mean(const float* x, float* out, int pixels) {
    __shared__ float s[32];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, warps = blockDim.x / 32;
    int lanes = min(32, (int)blockDim.x - 32 * warp);  // of this thread's warp
    float sum = 0.0f;
    for (int p = t; p < pixels; p += blockDim.x) sum += x[blockIdx.x * pixels + p];  // 0 if there are fewer pixels
    for (int step = 16; step > 0; step /= 2) {
        float further = __shfl_down_sync(0xffffffffu, sum, step);
        if (lane + step < lanes) sum += further;
    }
    if (lane == 0) s[warp] = sum;
    __syncthreads();
    if (t == 0) {
        for (int w = 1; w < warps; ++w) sum += s[w];
        out[blockIdx.x] = sum / pixels;
    }
}
