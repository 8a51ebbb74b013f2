// warp_mean: out[c] = the mean of x[c][0] … x[c][pixels − 1]. One block per channel, of any
// number of threads from 1 to 1024, so the last warp need not be whole. Lanes add by shuffles;
// s is for one number per warp.
extern "C" __global__ void warp_mean(const float* x, float* out, int pixels) {
    __shared__ float s[32];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, warps = (blockDim.x + 31) / 32;
    int lanes = min(32, (int)blockDim.x - 32 * warp);  // of this thread's warp
    float sum = 0.0f;
    // BEGIN SOLUTION
    // write: the thread's share of the pixels of channel blockIdx.x
    // write: the sum of the warp's lanes in lane 0, without lanes that do not exist
    // write: the warps' sums through s, and the mean to out
    // 0 if there are fewer pixels
    for (int p = t; p < pixels; p += blockDim.x) sum += x[blockIdx.x * pixels + p];
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
    // END SOLUTION
}
