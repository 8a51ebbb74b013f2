extern "C" __global__ void grouped(const float* x, const float* weight, float* y, int C, int H, int W, int O, int groups) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, plane = H * W;
    if (i >= O * plane) return;
    const int o = i / plane, row = i % plane / W, col = i % W, mine = C / groups;
    const float* from = x + o * groups / O * mine * plane;
    const float* w = weight + o * mine * 9;
    float sum = 0.0f;
    for (int kh = -1; kh <= 1; ++kh)
        for (int kw = -1; kw <= 1; ++kw) {
            if (row + kh < 0 || row + kh >= H || col + kw < 0 || col + kw >= W) continue;
            for (int c = 0; c < mine; ++c) sum += w[c * 9 + kh * 3 + kw + 4] * from[c * plane + (row + kh) * W + col + kw];
        }
    y[i] = sum;
}
