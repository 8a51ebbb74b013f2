// grouped: y = the 3×3 convolution of x in groups, one row and column of padding around x. x
// is (C, H, W), y (O, H, W). An output channel of group g reads the C/groups input channels of
// that group; weight is (O, C/groups, 3, 3). It was written without groups, and is right for
// groups = 1. With more groups, its results are wrong. Any line may change.
extern "C" __global__ void grouped(const float* x, const float* weight, float* y, int C,
                                   int H, int W, int O, int groups) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= O * H * W) return;
    int o = i / (H * W), row = i / W % H, col = i % W;
    int channels = C / groups;  // how many input channels an output channel reads
    int group = o % groups;  // the group that o is in
    int first = group * channels;  // of the input channels of the group
    int begin = o * C * 9;  // of o's weights
    float sum = 0.0f;
    for (int c = 0; c < channels; ++c)
        for (int kh = 0; kh < 3; ++kh)
            for (int kw = 0; kw < 3; ++kw) {
                int h = row + kh - 1, w = col + kw - 1;
                bool inside = h >= 0 && h < H && w >= 0 && w < W;
                if (inside)
                    sum += weight[begin + (c * 3 + kh) * 3 + kw]
                         * x[((first + c) * H + h) * W + w];
            }
    y[i] = sum;
}
