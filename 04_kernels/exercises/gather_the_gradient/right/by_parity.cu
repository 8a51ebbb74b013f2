extern "C" __global__ void input_gradient(const float* grad, const float* weight, float* out, int planes, int C, int H, int W,
                                          int oH, int oW, int accumulate) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= planes * H * W) return;
    int w = i % W, h = i / W % H, p = i / (W * H);
    const float* k = weight + p % C * 9;
    float sum = accumulate ? out[i] : 0.0f;
    for (int kh = (h + 1) % 2; kh < 3; kh += 2)
        for (int kw = (w + 1) % 2; kw < 3; kw += 2) {
            int oh = (h + 1 - kh) >> 1, ow = (w + 1 - kw) >> 1;
            if (oh >= 0 && oh < oH && ow >= 0 && ow < oW) sum += k[3 * kh + kw] * grad[(p * oH + oh) * oW + ow];
        }
    out[i] = sum;
}
