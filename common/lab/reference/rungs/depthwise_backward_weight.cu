// depthwise_backward_weight: the gradient of the weight of a depthwise convolution, NCHW. One
// thread per element of dweight adds up all images and pixels.
// grid: (channels * kernel * kernel + 63) / 64
// block: 64
extern "C" __global__ void depthwise_backward_weight(
    const float* in, const float* dout, float* dweight, int images, int channels, int height,
    int width, int out_height, int out_width, int kernel, int stride, int padding) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= channels * kernel * kernel) return;
    int j = at % kernel, i = at / kernel % kernel, channel = at / kernel / kernel;
    float sum = 0.0f;
    for (int image = 0; image < images; ++image) {
        const float* x = in + (size_t)(image * channels + channel) * height * width;
        const float* d = dout + (size_t)(image * channels + channel) * out_height * out_width;
        for (int y = 0; y < out_height; ++y)
            for (int k = 0; k < out_width; ++k) {
                int row = y * stride - padding + i, col = k * stride - padding + j;
                if (row >= 0 && row < height && col >= 0 && col < width)
                    sum += d[y * out_width + k] * x[row * width + col];
            }
    }
    dweight[at] = sum;
}
