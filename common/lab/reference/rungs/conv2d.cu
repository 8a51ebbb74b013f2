// conv: a convolution with a square kernel, NCHW. One thread per element of out.
// grid: (images * out_channels * out_height * out_width + 255) / 256
// block: 256
extern "C" __global__ void conv(
    const float* in, const float* weight, const float* bias, float* out, float low, float high,
    int images, int in_channels, int height, int width, int out_channels,
    int out_height, int out_width, int kernel, int stride, int padding) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= images * out_channels * out_height * out_width) return;
    int x = at % out_width, y = at / out_width % out_height;
    int plane = at / out_width / out_height, o = plane % out_channels;
    in += (size_t)(plane / out_channels) * in_channels * height * width;
    float sum = 0.0f;
    for (int c = 0; c < in_channels; ++c)
        for (int i = 0; i < kernel; ++i)
            for (int j = 0; j < kernel; ++j) {
                int row = y * stride - padding + i, col = x * stride - padding + j;
                if (row >= 0 && row < height && col >= 0 && col < width)
                    sum += in[(c * height + row) * width + col] *
                           weight[((o * in_channels + c) * kernel + i) * kernel + j];
            }
    sum += bias[o];
    out[at] = sum < low ? low : sum > high ? high : sum;
}
