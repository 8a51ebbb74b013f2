// expect: of 128 threads write to shared memory
__device__ float relu6(float v) { return fminf(fmaxf(v, 0.0f), 6.0f); }
extern "C" __global__ void fused_block(const float* x, const float* expand, const float* expand_bias,
                                       const float* depthwise, const float* depthwise_bias, const float* project,
                                       const float* project_bias, float* y, int H, int W) {
    int h = blockIdx.y * 4 + threadIdx.x / 8, w = blockIdx.x * 8 + threadIdx.x % 8;
    if (threadIdx.x >= 32 || h >= H || w >= W) return;
    float dw[16];
    for (int c = 0; c < 16; ++c) {
        dw[c] = depthwise_bias[c];
        for (int i = 0; i < 9; ++i) {
            int r = h + i / 3 - 1, k = w + i % 3 - 1;
            if (r < 0 || r >= H || k < 0 || k >= W) continue;
            float v = expand_bias[c];
            for (int j = 0; j < 8; ++j) v += expand[c * 8 + j] * x[(r * W + k) * 8 + j];
            dw[c] += depthwise[c * 9 + i] * relu6(v);
        }
        dw[c] = relu6(dw[c]);
    }
    for (int o = 0; o < 8; ++o) {
        float v = project_bias[o] + x[(h * W + w) * 8 + o];
        for (int c = 0; c < 16; ++c) v += project[o * 16 + c] * dw[c];
        y[(h * W + w) * 8 + o] = v;
    }
}
