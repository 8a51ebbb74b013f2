// expect: one thread an output
extern "C" __global__ void pointwise(const float* x, const float* weight, float* y, int P, int C, int O) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int p = i / O, o = i % O;
    if (p >= P) return;
    for (int q = p; q < P && q < p + 2; ++q) {
        float acc = 0.0f;
        for (int c = 0; c < C; ++c) acc += weight[c * O + o] * x[q * C + c];
        y[q * O + o] = acc;
    }
}
