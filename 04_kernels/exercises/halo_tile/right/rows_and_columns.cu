extern "C" __global__ void depthwise(const float* x, const float* weight, float* y, int H, int W) {
    __shared__ float tile[10][20];
    int c = blockIdx.z, tx = threadIdx.x, ty = threadIdx.y, top = blockIdx.y * 8 - 1, left = blockIdx.x * 16 - 1;
    for (int r = ty; r < 10; r += 8)
        for (int k = tx; k < 18; k += 16) {
            bool inside = (unsigned)(top + r) < (unsigned)H && (unsigned)(left + k) < (unsigned)W;
            tile[r][k] = inside ? x[(c * H + top + r) * W + left + k] : 0.0f;
        }
    float k[9];
    for (int i = 0; i < 9; ++i) k[i] = weight[9 * c + i];
    __syncthreads();
    int h = top + 1 + ty, w = left + 1 + tx;
    if (h >= H || w >= W) return;
    float sum = 0.0f;
    for (int i = 0; i < 9; ++i) sum = fmaf(k[i], tile[ty + i / 3][tx + i % 3], sum);
    y[(c * H + h) * W + w] = sum;
}
