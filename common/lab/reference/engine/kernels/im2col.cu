// im2col: columns[k][p] = the number of x under tap k of window p, or 0 in the padding.
// k counts (c, kh, kw), p counts (image, oh, ow); the last of each runs fastest. x is
// (N, C, H, W) and columns (C·kH·kW, N·oH·oW), row by row. Windows are `stride` rows and
// columns apart; the first begins `pad` rows above and `pad` columns left of the image.
// grid: (C * kH * kW * N * oH * oW + 255) / 256
// block: 256
extern "C" __global__ void im2col(const float* x, float* columns, int N, int C, int H, int W,
                                  int oH, int oW, int kH, int kW, int stride, int pad) {
    // BEGIN SOLUTION
    // write: the whole body. Target: as few sectors per store as possible
    int i = blockIdx.x * blockDim.x + threadIdx.x, pixels = N * oH * oW;
    int k = i / pixels, p = i % pixels;
    if (k >= C * kH * kW) return;
    int c = k / (kH * kW), kh = k / kW % kH, kw = k % kW;
    int image = p / (oH * oW), oh = p / oW % oH, ow = p % oW;
    int h = oh * stride - pad + kh, w = ow * stride - pad + kw;
    bool inside = h >= 0 && h < H && w >= 0 && w < W;
    columns[i] = inside ? x[((image * C + c) * H + h) * W + w] : 0.0f;
    // END SOLUTION
}
