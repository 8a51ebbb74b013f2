// weight_gradient: out[c][kh][kw] = the sum over n, h, w of grad[n][c][h][w] · x[n][c][h + kh
// − 1][w + kw − 1], where x outside the image is 0: the gradient to the weight of a depthwise
// convolution of 3 × 3 taps, stride 1 and padding 1. grad and x are (N, C, H, W), out is (C,
// 3, 3). One block per element of out, in order; it has 32, 64, … or 1024 threads.
extern "C" __global__ void weight_gradient(const float* grad, const float* x, float* out,
                                           int N, int C, int H, int W) {
    // BEGIN SOLUTION
    // write: the whole kernel, without atomics: registers, shuffles, shared memory
    __shared__ float sums[32];  // of the warps
    int c = blockIdx.x / 9, kh = blockIdx.x / 3 % 3, kw = blockIdx.x % 3;
    int t = threadIdx.x, warps = blockDim.x / 32;
    float sum = 0.0f;
    for (int i = t; i < N * H * W; i += blockDim.x) {
        int n = i / (H * W), h = i / W % H, w = i % W, ih = h + kh - 1, iw = w + kw - 1;
        bool inside = ih >= 0 && ih < H && iw >= 0 && iw < W;
        if (inside)
            sum += grad[((n * C + c) * H + h) * W + w] * x[((n * C + c) * H + ih) * W + iw];
    }
    // lane 0: the warp's sum
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (t % 32 == 0) sums[t / 32] = sum;
    __syncthreads();
    if (t == 0) {
        sum = 0.0f;
        for (int warp = 0; warp < warps; ++warp) sum += sums[warp];
        out[blockIdx.x] = sum;
    }
    // END SOLUTION
}
