extern "C" __global__ void winograd_output(const float* M, const float* bias, float* y, int oH, int oW, int tiles_w, int tiles) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= tiles) return;
    float half[4][2];
    for (int r = 0; r < 4; ++r) {
        const float* m = M + 4 * r * tiles + t;
        half[r][0] = m[0] + m[tiles] + m[2 * tiles];
        half[r][1] = m[tiles] - m[2 * tiles] - m[3 * tiles];
    }
    const int h = t / tiles_w * 2, w = t % tiles_w * 2;
    for (int j = 0; j < 2; ++j) {
        const float column[2] = {half[0][j] + half[1][j] + half[2][j], half[1][j] - half[2][j] - half[3][j]};
        for (int i = 0; i < 2; ++i) {
            float v = column[i] + *bias;
            v = v < 0.0f ? 0.0f : v > 6.0f ? 6.0f : v;
            if (h + i < oH && w + j < oW) y[(h + i) * oW + w + j] = v;
        }
    }
}
