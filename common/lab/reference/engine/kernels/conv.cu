// conv: a convolution with a square kernel, NCHW, groups = 1: the product of the weight,
// (out_channels, K) with K = in_channels · kernel · kernel, and a matrix that is never stored,
// with a row per k and a column per output pixel of all images. Then bias, then the bounds.
// grid: (images * out_height * out_width + TILE - 1) / TILE, (out_channels + TILE - 1) / TILE
// block: 16, 16
#define TILE 32
#define SLICE 16

extern "C" __global__ void __launch_bounds__(256) conv(
    const float* in, const float* weight, const float* bias, float* out, float low, float high,
    int images, int in_channels, int height, int width, int out_channels,
    int out_height, int out_width, int kernel, int stride, int padding) {
    __shared__ float ws[SLICE][TILE + 2], xs[SLICE][TILE];  // a row per k
    int area = out_height * out_width, pixels = images * area, taps = kernel * kernel;
    int K = in_channels * taps;
    int channel0 = blockIdx.y * TILE, pixel0 = blockIdx.x * TILE;
    int t = threadIdx.y * 16 + threadIdx.x;
    float sums[2][2] = {};
    // BEGIN SOLUTION
    // write: image, row and column of the pixel that this thread stages (or delete this line)
    int staged = pixel0 + t % TILE, image = staged / area;  // this thread's pixel
    int row0 = staged % area / out_width * stride - padding;
    int col0 = staged % out_width * stride - padding;
    // END SOLUTION
    for (int k0 = 0; k0 < K; k0 += SLICE) {
        // BEGIN SOLUTION
        // write: stage SLICE × TILE weights in ws, and as many input numbers in xs (0 outside)
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
        // END SOLUTION
        __syncthreads();
        for (int k = 0; k < SLICE; ++k)
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j)
                    sums[i][j] += ws[k][threadIdx.y + 16 * i] * xs[k][threadIdx.x + 16 * j];
        __syncthreads();  // the next slice overwrites ws and xs
    }
    // BEGIN SOLUTION
    // write: store the thread's 2 × 2 sums with bias and bounds; NaN stays NaN
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            int o = channel0 + threadIdx.y + 16 * i, pixel = pixel0 + threadIdx.x + 16 * j;
            if (o >= out_channels || pixel >= pixels) continue;
            float sum = sums[i][j] + bias[o];
            size_t plane = (size_t)(pixel / area) * out_channels + o;
            out[plane * area + pixel % area] = sum < low ? low : sum > high ? high : sum;
        }
    // END SOLUTION
}
