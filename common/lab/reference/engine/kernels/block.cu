// An inverted residual in one launch, NCHW: expand (1×1), bias, ReLU6; depthwise (3×3,
// padding 1, stride 1 or 2), bias, ReLU6; project (1×1), bias; then + in if residual is 1.
// grid: (out_width + COLUMNS - 1) / COLUMNS, (out_height + ROWS - 1) / ROWS, images
// block: 128
// shared: 4 * out_channels * ROWS * COLUMNS
#define ROWS 4     // a thread block computes ROWS × COLUMNS pixels of out, all channels,
#define COLUMNS 8  // and takes SLICE hidden channels at a time
#define PIXELS (ROWS * COLUMNS)
#define SLICE 16
__device__ float relu6(float v) { return v < 0.0f ? 0.0f : v > 6.0f ? 6.0f : v; }  // NaN stays

extern "C" __global__ void block(
    const float* in, const float* expand, const float* expand_bias, const float* depthwise,
    const float* depthwise_bias, const float* project, const float* project_bias, float* out,
    int images, int in_channels, int hidden_channels, int out_channels, int height, int width,
    int out_height, int out_width, int stride, int residual) {
    extern __shared__ float sums[];                                 // [out_channels][PIXELS]
    __shared__ float hidden[SLICE][2 * ROWS + 1][2 * COLUMNS + 1];  // a slice, with its halo
    __shared__ float dw[SLICE][PIXELS];
    int t = threadIdx.x, first_h = blockIdx.y * ROWS, first_w = blockIdx.x * COLUMNS;
    in += (size_t)blockIdx.z * in_channels * height * width;
    out += (size_t)blockIdx.z * out_channels * out_height * out_width;
    for (int i = t; i < out_channels * PIXELS; i += 128) sums[i] = project_bias[i / PIXELS];
    for (int first = 0; first < hidden_channels; first += SLICE) {
        // BEGIN SOLUTION
        // write: hidden and dw of this slice; then add the slice's part to sums
        int slice = min(SLICE, hidden_channels - first);
        int rows = (ROWS - 1) * stride + 3, columns = (COLUMNS - 1) * stride + 3;
        for (int i = t; i < slice * rows * columns; i += 128) {
            int k = i % columns, r = i / columns % rows, c = i / (rows * columns);
            int h = first_h * stride - 1 + r, w = first_w * stride - 1 + k;
            float v = 0.0f;  // outside of the image
            if (h >= 0 && h < height && w >= 0 && w < width) {
                const float* weight = expand + (first + c) * in_channels;
                const float* x = in + h * width + w;
                v = expand_bias[first + c];
                for (int j = 0; j < in_channels; ++j) v += weight[j] * x[j * height * width];
                v = relu6(v);
            }
            hidden[c][r][k] = v;
        }
        __syncthreads();
        for (int i = t; i < slice * PIXELS; i += 128) {
            int p = i % PIXELS, c = i / PIXELS;
            int r = p / COLUMNS * stride, k = p % COLUMNS * stride;
            float v = depthwise_bias[first + c];
            for (int j = 0; j < 9; ++j)
                v += depthwise[(first + c) * 9 + j] * hidden[c][r + j / 3][k + j % 3];
            dw[c][p] = relu6(v);
        }
        __syncthreads();
        for (int i = t; i < out_channels * PIXELS; i += 128) {
            float v = 0.0f;
            for (int c = 0; c < slice; ++c)
                v += project[i / PIXELS * hidden_channels + first + c] * dw[c][i % PIXELS];
            sums[i] += v;
        }
        // END SOLUTION
    }
    // BEGIN SOLUTION
    // write: the residual, and the store
    for (int i = t; i < out_channels * PIXELS; i += 128) {
        int h = first_h + i % PIXELS / COLUMNS, w = first_w + i % COLUMNS;
        if (h >= out_height || w >= out_width) continue;
        int at = (i / PIXELS * out_height + h) * out_width + w;
        out[at] = residual ? sums[i] + in[at] : sums[i];
    }
    // END SOLUTION
}
