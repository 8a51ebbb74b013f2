// depthwise_hard_swish: a convolution with a square kernel and groups = channels, NCHW; then
// bias, then the hard-swish v · clamp(v / 6 + 1/2, 0, 1) of the sum. A NaN stays a NaN.
// grid: (images * channels * out_height * out_width + 255) / 256
// block: 256
extern "C" __global__ void depthwise_hard_swish(
    const float* in, const float* weight, const float* bias, float* out,
    int images, int channels, int height, int width, int out_height, int out_width,
    int kernel, int stride, int padding) {
    // BEGIN SOLUTION
    // write: the kernel's body, and its grid and block above
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
    out[at] = sum * fminf(fmaxf(sum * (1.0f / 6.0f) + 0.5f, 0.0f), 1.0f);
    // END SOLUTION
}
