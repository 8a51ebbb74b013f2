// fused_block: an inverted-residual block of 8 input, 16 hidden and 8 output channels, stride 1, in one kernel.
//   hidden[c] = relu6(expand_bias[c] + sum over i of expand[c][i] · x[i])                 at each pixel of the image
//   dw[c]     = relu6(depthwise_bias[c] + 3×3 of hidden[c] under depthwise[c][3][3])      outside of the image hidden is 0
//   y[o]      = project_bias[o] + sum over c of project[o][c] · dw[c] + x[o]
// x and y are (H, W, 8). A block of 128 threads computes 4 rows × 8 columns of y, from (first_h, first_w) on.
__device__ float relu6(float v) { return fminf(fmaxf(v, 0.0f), 6.0f); }

extern "C" __global__ void fused_block(const float* x, const float* expand, const float* expand_bias,
                                       const float* depthwise, const float* depthwise_bias, const float* project,
                                       const float* project_bias, float* y, int H, int W) {
    __shared__ float hidden[6][10][16];  // hidden[r][k] is that of pixel (first_h + r - 1, first_w + k - 1)
    __shared__ float dw[4][8][16];
    int t = threadIdx.x, first_h = blockIdx.y * 4, first_w = blockIdx.x * 8;
    // your code: hidden, 6 · 10 · 16 numbers, by 128 threads
    // your code: dw, 4 · 8 · 16 numbers
    // your code: y, 4 · 8 · 8 numbers, of those pixels that there are
}
