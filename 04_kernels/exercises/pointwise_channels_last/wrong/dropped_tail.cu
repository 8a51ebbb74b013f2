// expect: unwritten
extern "C" __global__ void pointwise(const float* x, const float* weight, float* y, int P, int C, int O) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int p = i / O, o = i % O;
    if (p >= P - 1 && P > 1) return;
    if (p >= P) return;
    float acc = 0.0f;
    for (int c = 0; c < C; ++c) acc += weight[c * O + o] * x[p * C + c];
    y[p * O + o] = acc;
}
