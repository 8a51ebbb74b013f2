// mix_channels: out[o][p] = the sum over c of weight[o][c] * in[c][p], for 16 inputs c and 16
// outputs o. in and out are (16, pixels). 256 threads per block. Thread t of the grid computes
// all outputs of the pixels t and t + threads, where threads = gridDim.x * 256 is at least
// half the number of pixels.
extern "C" __global__ void mix_channels(const float* in, const float* weight, float* out,
                                        int pixels) {
    // BEGIN SOLUTION
    // write: the whole body: weights in shared memory, 8 multiply-adds per load from it
    __shared__ float w[256];
    w[threadIdx.x] = weight[threadIdx.x];
    __syncthreads();
    const int p = blockIdx.x * blockDim.x + threadIdx.x, q = p + gridDim.x * blockDim.x;
    float x[16], y[16];
    for (int c = 0; c < 16; ++c) {
        x[c] = p < pixels ? in[c * pixels + p] : 0.0f;
        y[c] = q < pixels ? in[c * pixels + q] : 0.0f;
    }
    for (int o = 0; o < 16; ++o) {
        float first = 0.0f, second = 0.0f;
        for (int c = 0; c < 16; ++c) {
            first += w[16 * o + c] * x[c];
            second += w[16 * o + c] * y[c];
        }
        if (p < pixels) out[o * pixels + p] = first;
        if (q < pixels) out[o * pixels + q] = second;
    }
    // END SOLUTION
}
