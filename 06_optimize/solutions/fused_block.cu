// fused_block: an inverted-residual block of 8 input, 16 hidden and 8 output channels, stride
// 1, in one kernel.
//   hidden[c] = relu6(expand_bias[c] + sum over i of expand[c][i] · x[i]); 0 outside the image
//   dw[c]     = relu6(depthwise_bias[c] + 3×3 of hidden[c] under depthwise[c][3][3])
//   y[o]      = project_bias[o] + sum over c of project[o][c] · dw[c] + x[o]
// x and y are (H, W, 8). Thread block (blockIdx.x, blockIdx.y) has 128 threads and computes
// 4 rows × 8 columns of y, from first_h = 4 · blockIdx.y, first_w = 8 · blockIdx.x on.
__device__ float relu6(float v) { return fminf(fmaxf(v, 0.0f), 6.0f); }

extern "C" __global__ void fused_block(const float* x, const float* expand,
                                       const float* expand_bias,
                                       const float* depthwise, const float* depthwise_bias,
                                       const float* project,
                                       const float* project_bias, float* y, int H, int W) {
    // BEGIN SOLUTION
    // write: the whole block; hidden and dw in shared memory, each hidden pixel once per tile
    // hidden[r][k] is that of pixel (first_h + r - 1, first_w + k - 1)
    __shared__ float hidden[6][10][16];
    __shared__ float dw[4][8][16];
    int t = threadIdx.x, first_h = blockIdx.y * 4, first_w = blockIdx.x * 8;
    for (int i = t; i < 6 * 10 * 16; i += 128) {
        int c = i % 16, k = i / 16 % 10, r = i / 160, h = first_h + r - 1, w = first_w + k - 1;
        float v = 0.0f;
        if (h >= 0 && h < H && w >= 0 && w < W) {
            v = expand_bias[c];
            for (int j = 0; j < 8; ++j) v += expand[c * 8 + j] * x[(h * W + w) * 8 + j];
            v = relu6(v);
        }
        hidden[r][k][c] = v;
    }
    __syncthreads();
    for (int i = t; i < 4 * 8 * 16; i += 128) {
        int c = i % 16, k = i / 16 % 8, r = i / 128;
        float v = depthwise_bias[c];
        for (int j = 0; j < 9; ++j)
            v += depthwise[c * 9 + j] * hidden[r + j / 3][k + j % 3][c];
        dw[r][k][c] = relu6(v);
    }
    __syncthreads();
    for (int i = t; i < 4 * 8 * 8; i += 128) {
        int o = i % 8, k = i / 8 % 8, r = i / 64, h = first_h + r, w = first_w + k;
        if (h >= H || w >= W) continue;
        float v = project_bias[o];
        for (int c = 0; c < 16; ++c) v += project[o * 16 + c] * dw[r][k][c];
        y[(h * W + w) * 8 + o] = v + x[(h * W + w) * 8 + o];
    }
    // END SOLUTION
}
