// expect: channels are the innermost in NHWC
extern "C" __global__ void pointwise(const float* x, const float* weight, float* y, int P, int C, int O) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int rows = (P + 31) / 32;
    for (; i < rows * 32 * O; i += gridDim.x * 256) {
        int p = i / 32 % rows * 32 + i % 32, o = i / 32 / rows;
        if (p >= P) continue;
        float acc = 0.0f;
        for (int c = 0; c < C; ++c) acc += weight[c * O + o] * x[p * C + c];
        y[p * O + o] = acc;
    }
}
