// depthwise: y[c][h][w] = sum over i, j < 3 of weight[c][i][j] · x[c][h + i - 1][w + j - 1];
// outside the image x is 0. x and y are (C, H, W), weight is (C, 3, 3). A block of 16 × 8
// threads computes 16 columns × 8 rows of channel blockIdx.z.
extern "C" __global__ void depthwise(const float* x, const float* weight, float* y, int H,
                                     int W) {
    // tile[r][k] is x[c][first_h + r - 1][first_w + k - 1], or 0
    __shared__ float tile[10][18];
    int t = threadIdx.y * 16 + threadIdx.x, c = blockIdx.z;
    int first_h = blockIdx.y * 8, first_w = blockIdx.x * 16;
    int h = first_h + threadIdx.y, w = first_w + threadIdx.x;
    // BEGIN SOLUTION
    // write: 128 threads fill 180 places; no thread reads x outside of its channel
    for (int i = t; i < 10 * 18; i += 128) {
        int r = i / 18, k = i % 18, from_h = first_h + r - 1, from_w = first_w + k - 1;
        bool inside = from_h >= 0 && from_h < H && from_w >= 0 && from_w < W;
        tile[r][k] = inside ? x[(c * H + from_h) * W + from_w] : 0.0f;
    }
    __syncthreads();
    // END SOLUTION
    float sum = 0.0f;
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j)
            sum += weight[(c * 3 + i) * 3 + j] * tile[threadIdx.y + i][threadIdx.x + j];
    // BEGIN SOLUTION
    // write: y gets the sum
    if (h < H && w < W) y[(c * H + h) * W + w] = sum;
    // END SOLUTION
}
