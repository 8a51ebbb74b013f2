// conv_hard_swish: a convolution with a square kernel, NCHW, groups = 1; then bias, then the
// hard-swish v · clamp(v / 6 + 1/2, 0, 1) of the sum, before it is stored. A NaN stays a NaN.
// grid: (images * out_height * out_width + TILE - 1) / TILE, (out_channels + TILE - 1) / TILE
// block: 16, 16
// As in your conv, each number that a block loads is used for a whole tile of outputs.
#define TILE 32
#define SLICE 16

extern "C" __global__ void __launch_bounds__(256) conv_hard_swish(
    const float* in, const float* weight, const float* bias, float* out,
    int images, int in_channels, int height, int width, int out_channels,
    int out_height, int out_width, int kernel, int stride, int padding) {
    // BEGIN SOLUTION
    // write: the body of your conv.cu with another epilogue; its grid and block above, too
    __shared__ float ws[SLICE][TILE + 2], xs[SLICE][TILE];  // a row per k
    int area = out_height * out_width, pixels = images * area, taps = kernel * kernel;
    int K = in_channels * taps;
    int channel0 = blockIdx.y * TILE, pixel0 = blockIdx.x * TILE;
    int t = threadIdx.y * 16 + threadIdx.x;
    float sums[2][2] = {};
    int staged = pixel0 + t % TILE, image = staged / area;  // this thread's pixel
    int row0 = staged % area / out_width * stride - padding;
    int col0 = staged % out_width * stride - padding;
    for (int k0 = 0; k0 < K; k0 += SLICE) {
        for (int i = t; i < TILE * SLICE; i += 256) {
            int k = k0 + i % SLICE, o = channel0 + i / SLICE;
            bool inside = o < out_channels && k < K;
            ws[i % SLICE][i / SLICE] = inside ? weight[(size_t)o * K + k] : 0.0f;
        }
        for (int i = t; i < TILE * SLICE; i += 256) {
            int k = k0 + i / TILE, row = row0 + k % taps / kernel, col = col0 + k % kernel;
            bool inside = row >= 0 && row < height && col >= 0 && col < width;
            inside = inside && k < K && staged < pixels;
            size_t plane = (size_t)image * in_channels + k / taps;
            xs[i / TILE][i % TILE] = inside ? in[(plane * height + row) * width + col] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < SLICE; ++k)
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j)
                    sums[i][j] += ws[k][threadIdx.y + 16 * i] * xs[k][threadIdx.x + 16 * j];
        __syncthreads();  // the next slice overwrites ws and xs
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            int o = channel0 + threadIdx.y + 16 * i, pixel = pixel0 + threadIdx.x + 16 * j;
            if (o >= out_channels || pixel >= pixels) continue;
            float sum = sums[i][j] + bias[o];
            size_t plane = (size_t)(pixel / area) * out_channels + o;
            float gate = fminf(fmaxf(sum * (1.0f / 6.0f) + 0.5f, 0.0f), 1.0f);
            out[plane * area + pixel % area] = sum * gate;
        }
    // END SOLUTION
}
