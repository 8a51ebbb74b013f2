// depthwise: y[c][oh][ow] = sum over i, j < 3 of weight[c][i][j] · x[c][s·oh + i - 1][s·ow + j
// - 1]; outside of x it is 0. x is (C, H, W), y (C, oH, oW) with oH = (H - 1) / s + 1 and oW
// alike; the stride s is 1 or 2. 32 threads, 32 outputs of a row. It is right for stride 1,
// and for stride 2 in the sizes that its author tried: 8 × 8 and 32 × 32. Any line may change.
extern "C" __global__ void depthwise(const float* x, const float* weight, float* y, int H,
                                     int W, int oH, int oW, int s) {
    // the three rows of x that the outputs need, from column s·first - 1 on
    __shared__ float rows[3][65];
    int first = blockIdx.x * 32, oh = blockIdx.y, c = blockIdx.z, t = threadIdx.x;
    int places = 31 * s + 3;  // the last output's window begins 31·s further right
    for (int i = 0; i < 3; ++i)
        for (int k = t; k < places; k += 32) {
            int h = s * oh + i - 1, w = s * first + k - 1;
            bool inside = h >= 0 && h < H && w >= 0 && w < W;
            rows[i][k] = inside ? x[(c * H + h) * W + w] : 0.0f;
        }
    __syncthreads();
    float sum = 0.0f;
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j) sum += weight[(c * 3 + i) * 3 + j] * rows[i][s * t + j];
    if (first + t < oW) y[(c * oH + oh) * oW + first + t] = sum;
}
