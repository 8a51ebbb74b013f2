// depthwise: a convolution with a square kernel and groups = channels, NCHW: each plane of the
// input with the weights of its channel. Then bias, then the bounds low and high.
// grid: (images * channels * out_height * out_width + 255) / 256
// block: 256
extern "C" __global__ void depthwise(
    const float* in, const float* weight, const float* bias, float* out, float low, float high,
    int images, int channels, int height, int width, int out_height, int out_width,
    int kernel, int stride, int padding) {
    // BEGIN SOLUTION
    // write: one thread per output element; neighbouring threads compute neighbouring columns
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= images * channels * out_height * out_width) return;
    int x = at % out_width, y = at / out_width % out_height;
    int plane = at / out_width / out_height;
    int channel = plane % channels;
    in += (size_t)plane * height * width;
    weight += channel * kernel * kernel;
    float sum = 0.0f;
    for (int i = 0; i < kernel; ++i)
        for (int j = 0; j < kernel; ++j) {
            int row = y * stride - padding + i, col = x * stride - padding + j;
            if (row >= 0 && row < height && col >= 0 && col < width)
                sum += in[row * width + col] * weight[i * kernel + j];
        }
    sum += bias[channel];
    out[at] = sum < low ? low : sum > high ? high : sum;
    // END SOLUTION
}
