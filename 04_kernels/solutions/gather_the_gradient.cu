// input_gradient: for a depthwise convolution of 3 × 3 taps, stride 2 and padding 1, the
// gradient to its input. Output (oh, ow) read with its tap (kh, kw) the pixel (2·oh − 1 + kh,
// 2·ow − 1 + kw) times weight[c][kh][kw], so to that pixel goes weight[c][kh][kw] ·
// grad[oh][ow]. grad is (planes, oH, oW), weight (C, 3, 3), out (planes, H, W), where plane p
// is channel p % C of an image, oH = (H + 1) / 2 and oW = (W + 1) / 2.
// One-dimensional grid and blocks, at least planes · H · W threads.
extern "C" __global__ void input_gradient(const float* grad, const float* weight, float* out,
                                          int planes, int C, int H, int W,
                                          int oH, int oW, int accumulate) {
    // BEGIN SOLUTION
    // write: the whole kernel; each pixel of out has one thread, which stores it once
    // write: if accumulate is not 0, out[i] grows by the sum; else it becomes the sum
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // one thread per pixel
    if (i >= planes * H * W) return;
    int p = i / (H * W), h = i / W % H, w = i % W;
    float sum = 0.0f;
    for (int kh = 0; kh < 3; ++kh) {
        for (int kw = 0; kw < 3; ++kw) {
            int up = h + 1 - kh, left = w + 1 - kw;  // twice the output's row and column
            bool even = up % 2 == 0 && left % 2 == 0;
            bool there = up >= 0 && up / 2 < oH && left >= 0 && left / 2 < oW;
            if (even && there)
                sum += weight[(p % C * 3 + kh) * 3 + kw]
                     * grad[(p * oH + up / 2) * oW + left / 2];
        }
    }
    out[i] = accumulate ? out[i] + sum : sum;
    // END SOLUTION
}
