extern "C" __global__ void convolve(const float* x, const float* weight, float* y, int C, int H, int W, int O, int oH, int oW,
                                    int kH, int kW, int stride, int pad) {
    __shared__ float ws[8][9], xs[8][33];
    int tx = threadIdx.x, ty = threadIdx.y, K = C * kH * kW;
    int p = blockIdx.x * 32 + tx, o = blockIdx.y * 8 + ty;
    int top = p / oW * stride - pad, left = p % oW * stride - pad;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 8) {
        int k = k0 + ty;
        float v = 0.0f;
        if (k < K && p < oH * oW) {
            int c = k / (kH * kW), tap = k % (kH * kW), h = top + tap / kW, w = left + tap % kW;
            if (h >= 0 && h < H && w >= 0 && w < W) v = x[(c * H + h) * W + w];
        }
        __syncthreads();
        xs[ty][tx] = v;
        if (tx < 8) ws[ty][tx] = o < O && k0 + tx < K ? weight[o * K + k0 + tx] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 8; ++i) sum += ws[ty][i] * xs[i][tx];
    }
    if (o < O && p < oH * oW) y[o * oH * oW + p] = sum;
}
