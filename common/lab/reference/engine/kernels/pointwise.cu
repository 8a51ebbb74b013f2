// pointwise: a 1×1 convolution, NCHW: per image out = weight · in, (out_channels, in_channels)
// times (in_channels, area). Then bias, then residual unless it is null, then low and high.
// grid: (area + TILE - 1) / TILE, (out_channels + TILE - 1) / TILE, images
// block: 16, 16
#define TILE 64
#define SLICE 16

extern "C" __global__ void __launch_bounds__(256) pointwise(
    const float* in, const float* weight, const float* bias, const float* residual, float* out,
    float low, float high, int images, int in_channels, int out_channels, int area) {
    __shared__ float ws[SLICE][TILE + 2], xs[SLICE][TILE];  // a row per input channel
    int channel0 = blockIdx.y * TILE, pixel0 = blockIdx.x * TILE;
    int t = threadIdx.y * 16 + threadIdx.x;
    in += (size_t)blockIdx.z * in_channels * area;
    float sums[4][4] = {};
    for (int k0 = 0; k0 < in_channels; k0 += SLICE) {
        for (int i = t; i < TILE * SLICE; i += 256) {
            int k = k0 + i % SLICE, o = channel0 + i / SLICE;
            bool inside = o < out_channels && k < in_channels;
            ws[i % SLICE][i / SLICE] = inside ? weight[(size_t)o * in_channels + k] : 0.0f;
            int c = k0 + i / TILE, pixel = pixel0 + i % TILE;
            inside = c < in_channels && pixel < area;
            xs[i / TILE][i % TILE] = inside ? in[(size_t)c * area + pixel] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < SLICE; ++k)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j)
                    sums[i][j] += ws[k][threadIdx.y + 16 * i] * xs[k][threadIdx.x + 16 * j];
        __syncthreads();  // the next slice overwrites ws and xs
    }
    // BEGIN SOLUTION
    // write: the epilogue: bias, residual, bounds, one store per element; NaN stays NaN
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            int o = channel0 + threadIdx.y + 16 * i, pixel = pixel0 + threadIdx.x + 16 * j;
            if (o >= out_channels || pixel >= area) continue;
            size_t at = ((size_t)blockIdx.z * out_channels + o) * area + pixel;
            float sum = sums[i][j] + bias[o];
            if (residual) sum += residual[at];
            out[at] = sum < low ? low : sum > high ? high : sum;
        }
    // END SOLUTION
}
