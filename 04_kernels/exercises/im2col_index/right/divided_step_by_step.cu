extern "C" __global__ void im2col(const float* x, float* columns, int H, int W, int oH, int oW, int kH, int kW,
                                  int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w,
                                  int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned rest = i;
        const int ow = rest % oW;
        rest /= oW;
        const int oh = rest % oH;
        rest /= oH;
        const int kw = rest % kW;
        rest /= kW;
        const int kh = rest % kH, c = rest / kH;
        const int h = oh * stride_h + kh * dilation_h - pad_top, w = ow * stride_w + kw * dilation_w - pad_left;
        float v = 0.0f;
        if (h >= 0 && w >= 0 && h < H && w < W) v = __ldg(&x[(c * H + h) * W + w]);
        columns[i] = v;
    }
}
