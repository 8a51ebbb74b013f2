// pointwise: a 1×1 convolution, NCHW. One thread per element of out. residual may be null.
// grid: (images * out_channels * area + 255) / 256
// block: 256
extern "C" __global__ void pointwise(
    const float* in, const float* weight, const float* bias, const float* residual, float* out,
    float low, float high, int images, int in_channels, int out_channels, int area) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= images * out_channels * area) return;
    int pixel = at % area, o = at / area % out_channels, image = at / area / out_channels;
    float sum = 0.0f;
    in += (size_t)image * in_channels * area + pixel;
    for (int c = 0; c < in_channels; ++c) sum += weight[o * in_channels + c] * in[c * area];
    sum += bias[o];
    if (residual) sum += residual[at];
    out[at] = sum < low ? low : sum > high ? high : sum;
}
