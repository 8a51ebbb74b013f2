__device__ float relu6(float v) { return fminf(fmaxf(v, 0.0f), 6.0f); }
extern "C" __global__ void __launch_bounds__(128) fused_block(const float* x, const float* expand, const float* expand_bias,
                                       const float* depthwise, const float* depthwise_bias, const float* project,
                                       const float* project_bias, float* y, int H, int W) {
    __shared__ float in[60][9], hidden[60][17], dw[32][17];
    const int t = threadIdx.x, top = blockIdx.y * 4 - 1, left = blockIdx.x * 8 - 1;
    for (int i = t; i < 60 * 8; i += blockDim.x) {
        int h = top + i / 80, w = left + i / 8 % 10;
        in[i / 8][i % 8] = h >= 0 && h < H && w >= 0 && w < W ? x[(h * W + w) * 8 + i % 8] : 0.0f;
    }
    __syncthreads();
    for (int i = t; i < 60 * 16; i += blockDim.x) {
        int p = i >> 4, c = i & 15, h = top + p / 10, w = left + p % 10;
        float v = expand_bias[c];
        for (int j = 0; j < 8; ++j) v = fmaf(expand[c * 8 + j], in[p][j], v);
        hidden[p][c] = h >= 0 && h < H && w >= 0 && w < W ? relu6(v) : 0.0f;
    }
    __syncthreads();
    for (int i = t; i < 32 * 16; i += blockDim.x) {
        int p = i >> 4, c = i & 15, at = p / 8 * 10 + p % 8;
        float v = depthwise_bias[c];
        for (int r = 0; r < 3; ++r)
            for (int s = 0; s < 3; ++s) v += depthwise[c * 9 + 3 * r + s] * hidden[at + 10 * r + s][c];
        dw[p][c] = relu6(v);
    }
    __syncthreads();
    for (int i = t; i < 32 * 8; i += blockDim.x) {
        int p = i >> 3, o = i & 7, h = top + 1 + p / 8, w = left + 1 + p % 8;
        float v = project_bias[o] + in[p / 8 * 10 + p % 8 + 11][o];
        for (int c = 0; c < 16; ++c) v += project[o * 16 + c] * dw[p][c];
        if (h < H && w < W) y[(h * W + w) * 8 + o] = v;
    }
}
