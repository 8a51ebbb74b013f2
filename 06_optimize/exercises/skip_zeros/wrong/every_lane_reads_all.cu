// expect: one lane reads a channel
extern "C" __global__ void skip_zeros(const float* x, const float* weight, float* y, int P, int C, int O) {
    int lane = threadIdx.x % 32, p = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (p >= P) return;  // of the whole warp
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
        float value = x[p * C + c];
        if (value != 0.0f && lane < O) sum = fmaf(value, weight[c * O + lane], sum);
    }
    if (lane < O) y[p * O + lane] = sum;
}
