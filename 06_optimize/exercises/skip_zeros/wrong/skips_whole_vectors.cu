// expect: rows of weights are read for channels that are zero
extern "C" __global__ void skip_zeros(const float* x, const float* weight, float* y, int P, int C, int O) {
    int lane = threadIdx.x % 32, p = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (p >= P) return;  // of the whole warp
    float sum = 0.0f;
    for (int first = 0; first < C; first += 32) {
        float mine = first + lane < C ? x[p * C + first + lane] : 0.0f;
        if (!__any_sync(0xffffffffu, mine != 0.0f)) continue;
        for (int channel = 0; channel < 32 && first + channel < C; ++channel) {
            float value = __shfl_sync(0xffffffffu, mine, channel);
            if (lane < O) sum = fmaf(value, weight[(first + channel) * O + lane], sum);
        }
    }
    if (lane < O) y[p * O + lane] = sum;
}
