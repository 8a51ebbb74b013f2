// depthwise: a convolution with groups = channels, NCHW. One thread per element of out.
// grid: (images * channels * out_height * out_width + 255) / 256
// block: 256
extern "C" __global__ void depthwise(
    const float* in, const float* weight, const float* bias, float* out, float low, float high,
    int images, int channels, int height, int width, int out_height, int out_width,
    int kernel, int stride, int padding) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= images * channels * out_height * out_width) return;
    int x = at % out_width, y = at / out_width % out_height;
    int plane = at / out_width / out_height, channel = plane % channels;
    float sum = 0.0f;
    for (int i = 0; i < kernel; ++i)
        for (int j = 0; j < kernel; ++j) {
            int row = y * stride - padding + i, col = x * stride - padding + j;
            if (row >= 0 && row < height && col >= 0 && col < width)
                sum += in[((size_t)plane * height + row) * width + col] *
                       weight[(channel * kernel + i) * kernel + j];
        }
    sum += bias[channel];
    out[at] = sum < low ? low : sum > high ? high : sum;
}
