// bias_relu: y[p][o] = max(y[p][o] + bias[o], 0), in place. y is (pixels, O), channels last;
// bias is (O). Block (i, j) has the 64 outputs from 64·i on, of the 32 pixels from 32·j on;
// the last ones may have fewer. 256 threads. Four things are wrong; one of them costs only
// time. Any line may change.
extern "C" __global__ void bias_relu(const float* bias, float* y, int pixels, int O) {
    __shared__ float b[64];  // the biases of the block's outputs
    int first = blockIdx.x * 64;
    if (threadIdx.x == 0)
        for (int k = 0; k < 64; ++k) b[k] = bias[first + k];
    for (int i = threadIdx.x; i < 32 * 64; i += 256) {
        int p = blockIdx.y * 32 + i / 64, o = first + i % 64;
        float added = b[i / 64];
        if (p < pixels && o < O) {
            float v = y[p * O + o] + added;
            y[p * O + o] = v < 0.0f ? 0.0f : v;
        }
    }
}
