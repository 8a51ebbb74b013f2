// depthwise: y[h][w][c] = sum over i, j < 3 of weight[i][j][c] · x[h + i - 1][w + j - 1][c];
// outside the image x is 0. x and y are (H, W, C), weight is (3, 3, C). Thread t of the grid
// has channel t % C and column t / C, and computes its H outputs from top to bottom.
extern "C" __global__ void depthwise(const float* x, const float* weight, float* y, int C,
                                     int H, int W) {
    // BEGIN SOLUTION
    // write: the whole kernel; each thread loads each of its inputs and weights once
    int thread = blockIdx.x * blockDim.x + threadIdx.x, c = thread % C, w = thread / C;
    // in step h: x[h - 1], x[h] and x[h + 1], each at columns w - 1 to w + 1, or 0
    float k[3][3], above[3] = {}, here[3] = {}, below[3] = {};
    if (w >= W) return;
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j) k[i][j] = weight[(i * 3 + j) * C + c];
    for (int j = 0; j < 3; ++j)
        if (w + j >= 1 && w + j <= W) here[j] = x[(w + j - 1) * C + c];
    for (int h = 0; h < H; ++h) {
        for (int j = 0; j < 3; ++j) {
            bool inside = h + 1 < H && w + j >= 1 && w + j <= W;
            below[j] = inside ? x[((h + 1) * W + w + j - 1) * C + c] : 0.0f;
        }
        float sum = 0.0f;
        for (int j = 0; j < 3; ++j)
            sum += k[0][j] * above[j] + k[1][j] * here[j] + k[2][j] * below[j];
        y[(h * W + w) * C + c] = sum;
        for (int j = 0; j < 3; ++j) above[j] = here[j], here[j] = below[j];
    }
    // END SOLUTION
}
