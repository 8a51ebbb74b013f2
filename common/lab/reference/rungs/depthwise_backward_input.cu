// depthwise_backward_input: the gradient of the input of a depthwise convolution, NCHW. One
// thread per element of din gathers the outputs that used it.
// grid: (images * channels * height * width + 255) / 256
// block: 256
extern "C" __global__ void depthwise_backward_input(
    const float* dout, const float* weight, float* din, int images, int channels, int height,
    int width, int out_height, int out_width, int kernel, int stride, int padding) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= images * channels * height * width) return;
    int x = at % width, y = at / width % height, plane = at / width / height;
    int channel = plane % channels;
    float sum = 0.0f;
    for (int i = 0; i < kernel; ++i)
        for (int j = 0; j < kernel; ++j) {
            int row = y + padding - i, col = x + padding - j;  // stride times the output's
            if (row < 0 || col < 0 || row % stride || col % stride) continue;
            row /= stride, col /= stride;
            if (row < out_height && col < out_width)
                sum += dout[((size_t)plane * out_height + row) * out_width + col] *
                       weight[(channel * kernel + i) * kernel + j];
        }
    din[at] = sum;
}
