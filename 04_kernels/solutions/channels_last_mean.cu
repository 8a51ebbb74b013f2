// channels_last_mean: out[n][c] = the mean of x[n][0][c] … x[n][pixels − 1][c]. x is NHWC:
// (images, pixels, channels). A block of 32 × 8 threads takes 32 channels of an image: lane k
// has the k-th of them, and each of the 8 warps a share of the pixels. channels need not be a
// multiple of 32.
extern "C" __global__ void channels_last_mean(const float* x, float* out, int pixels,
                                              int channels) {
    __shared__ float s[8][32];
    int lane = threadIdx.x, warp = threadIdx.y, n = blockIdx.y, c = blockIdx.x * 32 + lane;
    float sum = 0.0f;
    // BEGIN SOLUTION
    // write: the warp's share of the pixels: one request is 32 channels of one pixel
    // write: the sums of the 8 warps, through s, and the means of the block's channels to out
    if (c < channels)
        for (int p = warp; p < pixels; p += 8) sum += x[(n * pixels + p) * channels + c];
    s[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || c >= channels) return;
    for (int w = 1; w < 8; ++w) sum += s[w][lane];
    out[n * channels + c] = sum / pixels;
    // END SOLUTION
}
