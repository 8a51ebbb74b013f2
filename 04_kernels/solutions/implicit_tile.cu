// convolve: y[o, p] = sum over k of weight[o, k] · column[k, p]. column is what im2col would
// make of x; it is never stored. x is (C, H, W), weight (O, K) with K = C·kH·kW, k counts (c,
// kh, kw); y is (O, oH·oW), p counts (oh, ow). Windows are `stride` apart and begin `pad` rows
// above and columns left of the image; around it lie zeros. A block of 32×8 threads computes
// 8 output channels of 32 pixels, 8 values of k per round.
extern "C" __global__ void convolve(const float* x, const float* weight, float* y, int C,
                                    int H, int W, int O, int oH, int oW,
                                    int kH, int kW, int stride, int pad) {
    __shared__ float ws[8][8], xs[8][32];  // weight[o][k], column[k][p]
    int tx = threadIdx.x, ty = threadIdx.y, K = C * kH * kW;
    int p = blockIdx.x * 32 + tx, o = blockIdx.y * 8 + ty;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 8) {
        if (tx < 8) ws[ty][tx] = o < O && k0 + tx < K ? weight[o * K + k0 + tx] : 0.0f;
        // BEGIN SOLUTION
        // write: xs[ty][tx] gets column[k0 + ty][p]; 0 in the padding, beyond K, beyond oH·oW
        // write: the products of the round are added to sum; two barriers
        int k = k0 + ty, c = k / (kH * kW), kh = k / kW % kH, kw = k % kW;
        int h = p / oW * stride - pad + kh, w = p % oW * stride - pad + kw;
        bool inside = k < K && p < oH * oW && h >= 0 && h < H && w >= 0 && w < W;
        xs[ty][tx] = inside ? x[(c * H + h) * W + w] : 0.0f;
        __syncthreads();
        for (int k = 0; k < 8; ++k) sum += ws[ty][k] * xs[k][tx];
        __syncthreads();
        // END SOLUTION
    }
    if (o < O && p < oH * oW) y[o * oH * oW + p] = sum;
}
