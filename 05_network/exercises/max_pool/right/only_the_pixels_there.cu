extern "C" __global__ void max_pool(const float* x, float* out, int images, int H, int W, int oH, int oW, int k, int stride, int pad) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= images * oH * oW) return;
    int top = i / oW % oH * stride - pad, left = i % oW * stride - pad, n = i / (oH * oW);
    int h0 = max(top, 0), h1 = min(top + k, H), w0 = max(left, 0), w1 = min(left + k, W);
    const float* from = x + (long long)n * H * W;
    float largest = from[h0 * W + w0];
    for (int h = h0; h < h1; ++h)
        for (int w = w0; w < w1; ++w)
            if (from[h * W + w] > largest) largest = from[h * W + w];
    out[i] = largest;
}
