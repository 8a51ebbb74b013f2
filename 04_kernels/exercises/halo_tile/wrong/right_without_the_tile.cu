// expect: the nine of a sum come from the tile
extern "C" __global__ void depthwise(const float* x, const float* weight, float* y, int H, int W) {
    int c = blockIdx.z, h = blockIdx.y * 8 + threadIdx.y, w = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j) {
            bool inside = h + i >= 1 && h + i <= H && w + j >= 1 && w + j <= W && h < H && w < W;
            if (inside) sum += weight[(c * 3 + i) * 3 + j] * x[(c * H + h + i - 1) * W + w + j - 1];
        }
    if (h < H && w < W) y[(c * H + h) * W + w] = sum;
}
